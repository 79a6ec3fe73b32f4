"""URLs in messages: what remains of them, and which are refused."""

import pytest

from dlperf_sdk.documents.credentials import hide_credentials, is_url, name_url
from dlperf_sdk.errors import UsageError


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://", "postgresql://"),
        ("postgresql:///results", "postgresql:///results"),
        ("postgresql://db.example.org", "postgresql://db.example.org"),
        ("postgresql://ann@db:5432/results", "postgresql://db:5432/results"),
        (
            "postgresql://ann:pa%40ss%2F@db:5432,other:5433/results?sslmode=require",
            "postgresql://db:5432,other:5433/results",
        ),
        ("postgresql://ann:secret@[2001:db8::1]:5432/results", "postgresql://[2001:db8::1]:5432/results"),
        ("postgresql://ann:secret@%2Frun%2Fpostgresql/results", "postgresql://%2Frun%2Fpostgresql/results"),
        ("postgresql://db/results?password=secret", "postgresql://db/results"),
    ],
)
def test_a_name_has_no_credentials(url, name):
    assert is_url(url)
    assert name_url(url) == name


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:sec/ret@db/results",
        "postgresql://ann:sec@ret@db/results",
        "postgresql://ann:sec?ret@db/results",
        "postgresql://ann:sec ret@db/results",
        "postgresql://ann:secret",
        "postgresql://db/results?options=a@secret",
        "postgresql://db/results/secret",
        "secret",
    ],
)
def test_a_url_with_an_unclear_password_is_refused(url):
    with pytest.raises(UsageError) as caught:
        name_url(url)
    assert "sec" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "Unexpected: 'postgresql://ann:secret@db/results' here",
            "Unexpected: 'postgresql://…@db/results' here",
        ),
        ("postgresql:/ann:sec@r/et@db/results", "postgresql:/…@db/results"),
        ("postgresql://ann:secret", "postgresql://ann:…"),
        ("postgresql://db:5432/results?password=secret&x=1 is", "postgresql://db:5432/results?… is"),
        ("postgresql://db:5432/results", "postgresql://db:5432/results"),
        ("see http://127.0.0.1:8080/, or a@b.org", "see http://127.0.0.1:8080/, or a@b.org"),
        ("git+https://example.org/x@v1.0", "git+https://example.org/x@v1.0"),
        ("torch:2.1 on node-1: 3 @ 4", "torch:2.1 on node-1: 3 @ 4"),
    ],
)
def test_messages_show_no_credentials(text, shown):
    assert hide_credentials(text) == shown
