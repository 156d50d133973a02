"""This room names how a peer may break the Kafka language; the door answers by closing the connection."""


class KafkaWireError(Exception):
    """A peer broke the language; its docstring is the text of the log line."""


class MalformedFrame(KafkaWireError):
    """The bytes of a frame are not what its header says they are."""


class FrameTooLarge(KafkaWireError):
    """A length prefix is negative or above the door's limit; nothing was allocated for it."""


class UnsupportedRequest(KafkaWireError):
    """An api key or version that this door does not serve."""


class NotAdmitted(KafkaWireError):
    """A peer that did not prove that it is a broker of this cluster."""


class CorruptBatch(KafkaWireError):
    """A record batch whose checksum, size, magic or counts do not agree."""


class RecordsTooLarge(CorruptBatch):
    """The records of a batch are more, decompressed, than whoever opens them allows."""


class UnsupportedCompression(KafkaWireError):
    """A record batch is compressed with a codec for which no library is installed."""
