"""How columns of text are told apart."""

import pyarrow as pa

from pilu.tabular import lay_out


def test_numbers_and_dates_in_another_way_of_writing_are_told_of():
    n = 60
    texts = {
        "price": [f"{k},{k:02d}" for k in range(n)],
        "day": [f"{1 + k % 28:02d}.{1 + k % 12:02d}.{1950 + k}" for k in range(n)],
        "mail": [f"p{k}@example.org" for k in range(n)],
        "code": [f"{k}-x-{k}" for k in range(n)],
    }
    table = pa.table({"y": [k % 2 for k in range(n)], "a": [float(k) for k in range(n)], **texts})
    left_out = lay_out(table, target="y").left_out
    told = {name for name, why in left_out.items() if "write numbers as 39.78" in why}
    assert set(left_out) == set(texts)
    assert told == {"price", "day"}
