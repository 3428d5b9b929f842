"""What a congestion controller of one's own has."""

from __future__ import annotations

from typing import Optional, Protocol

from ._native import AckSample, LossSample


class Controller(Protocol):
    """A congestion controller. It is made by a call with a ControllerConfig, one per connection.

    `window` and `pacing_bps` are read after each call. A class may also have

        startup: bool                                  still looking for the path's bandwidth
        def on_sent(self, bytes, in_flight, app_limited, now_s)    every packet that leaves
        def set_mss(self, mss)                         the path's MTU was found

    It has no clock and no randomness but ControllerConfig.seed: so a run repeats.
    """

    #: The most that may be in flight, bytes.
    window: int
    #: Rate at which data leaves, bit/s; None: as fast as the window allows.
    pacing_bps: Optional[float]

    def on_ack(self, ack: AckSample) -> None:
        """An acknowledgment brought news."""

    def on_loss(self, loss: LossSample) -> None:
        """A congestion event began."""
