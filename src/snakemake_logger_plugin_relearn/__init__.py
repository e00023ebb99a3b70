"""What Snakemake shows with ``--logger relearn``, the setting of profiles/default: one line a job, and the time that is left.

On a terminal a line at the foot is drawn anew each second; elsewhere only whole lines are written. Snakemake's own words, with every
input, resource, reason and command, go to its log file, which the last line names. Jobs write to their own logs alone.

Snakemake finds this package by its name. `--verbose` and `--debug-dag` show Snakemake's own lines.
"""

from __future__ import annotations

from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

from snakemake_logger_plugin_relearn.foresight import foresee

__all__ = ["LogHandler", "foresee"]


class LogHandler(LogHandlerBase):
    """Takes every record of Snakemake's logger; :class:`snakemake_logger_plugin_relearn.story.Story` makes lines of them."""

    def __post_init__(self) -> None:
        from snakemake_logger_plugin_relearn.story import start

        self.story = start(self.common_settings)

    def emit(self, record: LogRecord) -> None:
        try:
            self.story.tell(record)
        except BrokenPipeError:
            raise
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self.story.end()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        return True

    @property
    def writes_to_file(self) -> bool:
        return False

    @property
    def has_filter(self) -> bool:
        return True

    @property
    def has_formatter(self) -> bool:
        return True

    @property
    def needs_rulegraph(self) -> bool:
        return False
