"""The profiler of TensorFlow, whose files are converted to Chrome's trace format."""

import json
import os
from contextlib import contextmanager
from glob import glob
from tempfile import TemporaryDirectory

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2


@contextmanager
def record(folder):
    """Return a context manager in which TensorFlow's profiler records; it yields a list that is filled at the end.

    The list then holds the planes (`XPlane`) of the profile: a plane is a host or a device, and its lines are threads
    or streams. It stays empty if an exception leaves the context manager. The profiler writes its file into a temporary
    folder in the folder `folder`; the temporary folder is removed at the end.

    Raises:
        OSError: The temporary folder cannot be created.
    """
    planes = []
    with TemporaryDirectory(dir=folder) as temporary:
        # Calls of Python functions would be most of the trace.
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        with tf.profiler.experimental.Profile(temporary, options):
            yield planes
        (path,) = glob(os.path.join(temporary, "**", "*.xplane.pb"), recursive=True)
        with open(path, "rb") as file:
            planes += xplane_pb2.XSpace.FromString(file.read()).planes


def write_chrome_trace(planes, path):
    """Write `planes`, the list that `record` yielded, to the file `path` in Chrome's trace format.

    A plane (host or device) becomes a process, and each of its lines a thread. An event that has a display name is an
    operator: the display name is its type, such as `MatMul`. It gets the category `operator`. Events without a duration
    are left out.

    Raises:
        OSError: The file cannot be written.
    """
    events = []
    for pid, plane in enumerate(planes):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": plane.name}})
        for line in plane.lines:
            name = line.display_name or line.name
            events.append(
                {"ph": "M", "name": "thread_name", "pid": pid, "tid": line.id, "args": {"name": name}}
            )
            events += (_event(plane, line, event, pid) for event in line.events if event.duration_ps)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events}, file)


def _event(plane, line, event, pid):
    """Return an event of a line as a complete event; times in microseconds."""
    metadata = plane.event_metadata[event.metadata_id]
    return {
        "ph": "X",
        "name": metadata.display_name or metadata.name,
        "cat": "operator" if metadata.display_name else "",
        "pid": pid,
        "tid": line.id,
        "ts": line.timestamp_ns / 1e3 + event.offset_ps / 1e6,
        "dur": event.duration_ps / 1e6,
        "args": {"name": metadata.name},
    }
