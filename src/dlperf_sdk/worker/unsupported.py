"""Define the error for what a plugin or a node cannot do."""


class Unsupported(Exception):
    """Raised if this plugin or this node cannot do what the request asks for. The message is a sentence for the user.

    It becomes the record's failure of kind `unsupported`.
    """
