"""The progress bar."""

from hardzero.engine.progress import show_progress


def test_bar_shows_the_last_epoch(capsys):
    """The bar goes to standard error and shows what was told last."""
    with show_progress(10, 2, enabled=True) as bar:
        for _ in range(20):
            bar.advance(1)
        bar.describe("epoch 2  loss 0.5")
    shown = capsys.readouterr()
    assert not shown.out
    assert "100 %" in shown.err
    assert "epoch 2  loss 0.5" in shown.err


def test_disabled_bar_is_silent(capsys):
    """Without verbose nothing is shown."""
    with show_progress(10, 2, enabled=False) as bar:
        bar.advance(10)
        bar.describe("epoch 1")
    assert capsys.readouterr() == ("", "")
