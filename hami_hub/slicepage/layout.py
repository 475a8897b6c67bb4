"""The pages as ctypes structures: a mirror of native/libvgpu/include/hami_slice.h and hami_turns.h, where each field is
explained.

Sizes and offsets are compared with the compiled header by tests/native.  Change the header first.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum, IntFlag

LIMITS_FILE = "limits"
USAGE_FILE = "usage"
TURNS_FILE = "turns"
CARDS_FOLDER = "cards"

LIMITS_MAGIC = int.from_bytes(b"HAMLIMIT", "little")
USAGE_MAGIC = int.from_bytes(b"HMIUSAGE", "little")
PAGE_VERSION = 1
TURNS_MAGIC = int.from_bytes(b"HAMITURN", "little")
SHARE_MAGIC = int.from_bytes(b"HAMISHAR", "little")
TURNS_VERSION = 1

MAX_CARDS = 16
MAX_PROCESSES = 1024
MAX_REFUSALS = 16
MAX_HOLDERS = 4
UUID_SIZE = 64
NAME_SIZE = 64
CALL_SIZE = 32
COMM_SIZE = 16
TURNS_MEMBERS = 128
TURNS_LANES = 32


class PolicyCode(IntEnum):
    """enum hami_core_policy."""

    DEFAULT = 0
    FORCE = 1
    DISABLE = 2


class CardFlag(IntFlag):
    """enum hami_card_flag."""

    WHOLE = 1
    OOM_KILLER = 2


class CardLimit(ctypes.Structure):
    """struct hami_card_limit."""

    _fields_ = [
        ("uuid", ctypes.c_char * UUID_SIZE),
        ("vram", ctypes.c_uint64),
        ("cores", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("priority", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint64 * 5),
    ]


class Limits(ctypes.Structure):
    """struct hami_limits."""

    _fields_ = [
        ("magic", ctypes.c_uint64),
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("sequence", ctypes.c_uint32),
        ("card_count", ctypes.c_uint32),
        ("name", ctypes.c_char * NAME_SIZE),
        ("reserved", ctypes.c_uint64 * 5),
        ("cards", CardLimit * MAX_CARDS),
    ]


class CardUsage(ctypes.Structure):
    """struct hami_card_usage."""

    _fields_ = [
        ("peak", ctypes.c_uint64),
        ("refusals", ctypes.c_uint64),
        ("overshoots", ctypes.c_uint64),
        ("throttled_ns", ctypes.c_uint64),
        ("used_ns", ctypes.c_uint64),
        ("last_launch_ns", ctypes.c_uint64),
        ("context_bytes", ctypes.c_uint64),
        ("borrowed_ns", ctypes.c_uint64),
        ("lent_ns", ctypes.c_uint64),
        ("window_ns", ctypes.c_uint64),
        ("window_used_ns", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 5),
    ]


class Process(ctypes.Structure):
    """struct hami_process."""

    _fields_ = [
        ("owner", ctypes.c_uint64),
        ("reaper", ctypes.c_uint64),
        ("comm", ctypes.c_char * COMM_SIZE),
        ("held", ctypes.c_uint64 * MAX_CARDS),
        ("overhead", ctypes.c_uint64 * MAX_CARDS),
        ("view", ctypes.c_uint64),
        ("imports", ctypes.c_uint64),
        ("moving", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 9),
    ]


class Holder(ctypes.Structure):
    """struct hami_holder."""

    _fields_ = [
        ("pid", ctypes.c_uint32),
        ("zero", ctypes.c_uint32),
        ("bytes", ctypes.c_uint64),
    ]


class RefusalRecord(ctypes.Structure):
    """struct hami_refusal."""

    _fields_ = [
        ("ticket", ctypes.c_uint64),
        ("time_ns", ctypes.c_uint64),
        ("asked", ctypes.c_uint64),
        ("used", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("card", ctypes.c_uint32),
        ("pid", ctypes.c_uint32),
        ("call", ctypes.c_char * CALL_SIZE),
        ("holders", Holder * MAX_HOLDERS),
    ]


class Usage(ctypes.Structure):
    """struct hami_usage."""

    _fields_ = [
        ("magic", ctypes.c_uint64),
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("process_high", ctypes.c_uint32),
        ("zero", ctypes.c_uint32),
        ("refusal_count", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 12),
        ("cards", CardUsage * MAX_CARDS),
        ("refusals", RefusalRecord * MAX_REFUSALS),
        ("processes", Process * MAX_PROCESSES),
    ]


class Share(ctypes.Structure):
    """struct hami_share."""

    _fields_ = [
        ("magic", ctypes.c_uint64),
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("card", ctypes.c_uint32),
        ("cores", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("priority", ctypes.c_uint32),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class TurnsCard(ctypes.Structure):
    """struct hami_turns_card."""

    _fields_ = [
        ("virtual_ns", ctypes.c_uint64),
        ("earned_ns", ctypes.c_uint64),
        ("spent_ns", ctypes.c_uint64),
        ("active_ns", ctypes.c_uint64),
        ("begun_ns", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 3),
    ]


class TurnsMemberCard(ctypes.Structure):
    """struct hami_turns_member_card."""

    _fields_ = [("until_ns", ctypes.c_uint64), ("asks_ns", ctypes.c_uint64)]


class Lane(ctypes.Structure):
    """struct hami_lane."""

    _fields_ = [("sent", ctypes.c_uint32), ("done", ctypes.c_uint32)]


class TurnsMember(ctypes.Structure):
    """struct hami_turns_member."""

    _fields_ = [
        ("owner", ctypes.c_uint64),
        ("begun_ns", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 6),
        ("cards", TurnsMemberCard * MAX_CARDS),
        ("lane_card", ctypes.c_uint8 * TURNS_LANES),
        ("lanes", Lane * TURNS_LANES),
        ("more_reserved", ctypes.c_uint64 * 52),
    ]


class Turns(ctypes.Structure):
    """struct hami_turns."""

    _fields_ = [
        ("magic", ctypes.c_uint64),
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("member_high", ctypes.c_uint32),
        ("zero", ctypes.c_uint32),
        ("reserved", ctypes.c_uint64 * 5),
        ("cards", TurnsCard * MAX_CARDS),
        ("more_reserved", ctypes.c_uint64 * 376),
        ("members", TurnsMember * TURNS_MEMBERS),
    ]
