"""What the service starts at night, and `pilu work` does: a worker, then who sends callbacks."""

from pilu.service.work import send, work


def a_pass(configuration):
    done = work(configuration, everywhere=True)
    send(configuration)
    return done
