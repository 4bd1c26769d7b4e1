"""Figures without and with the label constraint: on a network whose worst perturbations both lose the label, and in tables."""

import json
from math import asin, degrees

import pytest
import torch
from reference.program import attrcert
from torch import Tensor, nn

from attrcert import attack, bound
from attrcert.reporting.summaries.labels import compared_labels, label_tables, labels_told

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
CURVED, FLAT, EPS = 4.0, 1.0, 0.3
EXACT = {"dtype": "float64", "softplus_beta": None, "eps": EPS, "seed": 1}


class Wall(nn.Module):
    """Class 0 bends most along the first axis, on which two other classes stand close by on either side: its map is A z, and linear."""

    def forward(self, x: Tensor) -> Tensor:
        z = x.flatten(1) - 0.5
        bends = torch.tensor([CURVED] + [FLAT] * (z.shape[1] - 1), dtype=z.dtype)
        first, others = 3 * z[:, 0], (bends * z * z).sum(1) / 2
        return torch.stack([others, others + first - 0.3, others - first - 0.3], dim=1)


@pytest.fixture(scope="module")
def points() -> Tensor:
    x = torch.full((2, 1, 2, 2), 0.5, dtype=torch.float64)
    x[0, 0, 1, 1], x[1, 0, 0, 1] = 0.9, 0.2
    return x


def test_the_bounds_stand_beside_each_other_and_it_is_told_where_the_constraint_matters(points):
    rows, tightened = (bound(Wall(), points, label_constraint=how, **EXACT) for how in ("compare", "tighten"))
    own = dict.fromkeys(("T_c_label_deg", "label_matters", "seconds"))
    assert [{**row, **own} for row in rows] == [{**row, **own} for row in tightened]
    for row in rows:
        assert row["T_e"] == pytest.approx(CURVED * EPS, rel=0.011)
        # the first coordinate moves by 0.1 at most, the others by what is left
        kept = ((CURVED * 0.1) ** 2 + FLAT**2 * (EPS**2 - 0.1**2)) ** 0.5
        assert kept <= row["T_e_label"] < 1.2 * kept
        assert row["label_matters"] is True
        length = row["g_norm"]
        limit = (
            None if row["T_e_label"] >= length else pytest.approx(degrees(asin(row["T_e_label"] / length)), rel=1e-9)
        )
        assert row["T_c_label_deg"] == limit
    near = bound(Wall(), points, label_constraint="compare", **{**EXACT, "eps": 0.05})
    for row in near:
        assert (row["label_matters"], row["label_kept_linearised"]) == (False, "both")
        assert row["T_e_label"] == row["T_e"]
        assert row["T_c_label_deg"] == row["T_c_deg"]


def test_attacks_reach_the_bound_where_the_label_may_change_and_stay_at_the_wall_where_it_must_not(points):
    rows = attack(
        Wall(), points, label_constraint="compare", attack=["euclidean", "random"], steps=8, random_draws=10, **EXACT
    )
    for row in rows:
        free, kept = row["T_hat_e_free"], row["T_hat_e"]
        assert kept <= row["T_e_label"]
        assert kept <= free <= row["T_e"]
        assert row["T_hat_c_free_deg"] >= row["T_hat_c_deg"] or row["attack"] == "random"
        if row["attack"] == "euclidean":
            assert free == pytest.approx(CURVED * EPS, rel=1e-6)
            assert kept > 0.9 * row["T_e_label"] / 1.2
    plain = attack(
        Wall(), points, label_constraint="tighten", attack=["euclidean", "random"], steps=8, random_draws=10, **EXACT
    )
    assert [row["T_hat_e"] for row in plain] == [row["T_hat_e"] for row in rows]
    assert {row["T_hat_e_free"] for row in plain} == {None}
    assert "what attacks reach on 2." in " ".join(rows.summary().split())


def made_rows() -> list[dict]:
    """Of two samples under one attack: the constraint holds back the first."""
    common = {
        "status": "ok",
        "attribution": "saliency",
        "norm": "l2",
        "eps": 0.2,
        "attack": "top-k",
        "T_e": 2.0,
        "T_hat_floor": 0.01,
    }
    return [
        {**common, "index": 0, "T_e_label": 1.0, "T_c_label_deg": 30.0, "label_matters": True, "T_hat_e": 0.5, "T_hat_e_free": 0.9},
        {**common, "index": 1, "T_e_label": 2.0, "label_matters": False, "T_hat_e": 0.75, "T_hat_e_free": 0.755},
        {"index": 2, "status": "error:shape", "eps": 0.2},
    ]  # fmt: skip


def test_tables_have_means_of_both_and_the_share_of_samples_where_it_matters():
    (table,) = label_tables(made_rows())
    shown = dict(zip(table.header, table.cells[0], strict=True))
    assert shown == {
        "eps": "0.2", "attack": "top-k", "T_hat_e_free": "0.827", "T_hat_e": "0.625", "T_e": "2", "T_e_label": "1.5",
        "T_c_label_deg": "30° (n=1)", "label_matters": "1/2", "freed": "1/2",
    }  # fmt: skip
    assert labels_told(made_rows()) == [
        "Keeping the label lowers the first-order bound on 1 of 2 samples, and what attacks reach on 1."
    ]
    without = [{name: cell for name, cell in row.items() if name != "label_matters"} for row in made_rows()]
    assert (compared_labels(without), label_tables(without), labels_told(without)) == ((), (), [])


def test_a_gate_says_what_computes_the_figure_and_the_page_and_json_have_it(tmp_path):
    words = ("bound", "--limit", 1, "--eps", 0.1, "--quiet", "--out", tmp_path / "rows.csv")
    done = attrcert(*words, "--require", "max(T_c_label_deg) <= 40")
    assert done.code == 2
    assert "--label-constraint compare computes it" in done.said
    done = attrcert(
        *words, "--require", "max(T_c_label_deg) <= 80", "--label-constraint", "compare", "--format", "json"
    )
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["sentences"][-1] == "Keeping the label lowers the first-order bound on 0 of 1 samples."
