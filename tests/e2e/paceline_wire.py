"""A second, independent encoder and decoder of frames, written from docs/wire.md and messages.proto.

It checks nothing on purpose, so tests can send what a correct peer never would. Protobuf: varint
and length-delimited fields, fixed64 and fixed32 as raw integers.
"""

import dataclasses
import socket
import struct
import time

kHello, kWelcome, kAssignStage, kStageReady, kLinkStage, kLinkAccepted, kStep, kStepResult = range(1, 9)
kPing, kPong, kFault, kReleaseChain, kGoodbye, kReadPiece, kPiece, kStepSampling = range(9, 17)
kCoordinator, kUpstreamStage, kFetcher = 1, 2, 3
kExact = 2

_kFixedHeader = struct.Struct(">4sHHQIIQIIQ")


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | bytes | str) -> bytes:
    """A varint field of an integer, a length-delimited one of bytes or text."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def packed(number: int, values) -> bytes:
    return field(number, b"".join(map(varint, values)))


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, place


def parse(data: bytes) -> dict[int, list]:
    """Field number -> values, integers or bytes, of one message; nested ones stay bytes."""
    fields: dict[int, list] = {}
    place = 0
    while place < len(data):
        key, place = _read_varint(data, place)
        kind = key & 7
        if kind == 0:
            value, place = _read_varint(data, place)
        elif kind == 2:
            size, place = _read_varint(data, place)
            value, place = data[place : place + size], place + size
        else:
            size = {1: 8, 5: 4}[kind]
            value, place = int.from_bytes(data[place : place + size], "little"), place + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


@dataclasses.dataclass
class Frame:
    kind: int
    body: bytes = b""  # of the message itself, e.g. Hello
    chain: int = 0
    epoch: int = 0
    stage: int = 0
    step: int = 0
    version: int = 1
    payload: bytes = b""
    tensors: bytes = b""  # encoded TensorDescription fields of the header

    def fields(self) -> dict[int, list]:
        return parse(self.body)

    def encode(self, magic: bytes = b"PACE", header_bytes: int | None = None,
               payload_bytes: int | None = None, flags: int = 0) -> bytes:  # fmt: skip
        header = self.tensors + field(16 + self.kind, self.body)
        return (
            _kFixedHeader.pack(
                magic, self.version, self.kind, self.chain, self.epoch, self.stage, self.step,
                len(header) if header_bytes is None else header_bytes, flags,
                len(self.payload) if payload_bytes is None else payload_bytes,
            )
            + header + self.payload
        )  # fmt: skip


def hello(name: str = "a test", role: int = kCoordinator, versions: tuple[int, int] = (1, 1)) -> Frame:
    body = field(1, versions[0]) + field(2, versions[1]) + field(3, "0") + field(4, role)
    return Frame(kHello, body + field(5, name), version=versions[0])


def ping(nonce: int) -> Frame:
    return Frame(kPing, field(1, nonce))


def assign_whole_model(digest: str, layers: int, address: str, **where) -> Frame:
    """The whole model at one worker, exact, one thread, 4096 tokens of context."""
    layer_range = field(1, 0) + field(2, layers)
    body = field(1, digest) + field(2, layer_range) + field(3, kExact) + field(4, 1)
    body += field(5, 4096) + field(6, 128) + field(7, 32)
    return Frame(kAssignStage, body + field(8, field(1, address) + field(2, layer_range)), **where)


def prefill(tokens: list[int], **where) -> Frame:
    """Opens sequence 1, computes `tokens` and samples the last row."""
    blocks = range((len(tokens) + 31) // 32)
    sequence = field(1, 1) + field(3, len(tokens)) + packed(4, tokens)
    sequence += packed(6, [len(tokens) - 1]) + field(8, packed(1, blocks))
    top_p = varint(3 << 3 | 1) + struct.pack("<d", 1.0)
    return Frame(kStep, field(1, sequence) + field(2, field(1, 1) + top_p), **where)


class Peer:
    """A connection to a worker, or one that was accepted in a worker's place."""

    def __init__(self, port: int = 0, timeout: float = 20.0, connection: socket.socket | None = None):
        self._socket = connection or socket.create_connection(("127.0.0.1", port), timeout)
        self._socket.settimeout(timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_) -> None:
        self._socket.close()

    def send(self, frame: Frame | bytes) -> None:
        self._socket.sendall(frame if isinstance(frame, bytes) else frame.encode())

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                raise EOFError(f"closed after {len(data)} of {count} bytes")
            data += piece
        return data

    def receive(self) -> Frame:
        """EOFError where the other side has closed."""
        fixed = _kFixedHeader.unpack(self._receive(_kFixedHeader.size))
        _, version, kind, chain, epoch, stage, step, header_bytes, _, payload_bytes = fixed
        header = parse(self._receive(header_bytes))
        payload = self._receive(payload_bytes)
        return Frame(kind, header[16 + kind][0], chain, epoch, stage, step, version, payload)

    def receive_kind(self, kind: int) -> Frame:
        """The next frame of this kind; others are passed over, but a Fault is an error."""
        while True:
            frame = self.receive()
            if frame.kind == kind:
                return frame
            if frame.kind == kFault:
                raise AssertionError(f"a Fault: {fault_text(frame)}")

    def greet(self, **arguments) -> Frame:
        self.send(hello(**arguments))
        return self.receive_kind(kWelcome)

    def is_closed_within(self, seconds: float) -> bool:
        """Whether the other side closes; what it still says is thrown away."""
        deadline = time.monotonic() + seconds
        try:
            while (left := deadline - time.monotonic()) > 0:
                self._socket.settimeout(left)
                if not self._socket.recv(1 << 16):
                    return True
        except ConnectionError:
            return True
        except TimeoutError:
            pass
        return False


def frames_of(stream: bytes) -> list[Frame]:
    """The whole frames at the begin of what went over a connection."""
    frames = []
    while len(stream) >= _kFixedHeader.size:
        _, version, kind, chain, epoch, stage, step, header_bytes, _, payload_bytes = _kFixedHeader.unpack_from(stream)
        header_end = _kFixedHeader.size + header_bytes
        end = header_end + payload_bytes
        if len(stream) < end:
            break
        header = parse(stream[_kFixedHeader.size : header_end])
        payload = stream[header_end:end]
        frames.append(Frame(kind, header[16 + kind][0], chain, epoch, stage, step, version, payload))
        stream = stream[end:]
    return frames


def fault_text(frame: Frame) -> str:
    return frame.fields().get(2, [b""])[0].decode()
