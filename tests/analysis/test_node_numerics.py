"""Numerics of nodes: which digests count, and when a difference means nothing."""

from dlperf_sdk.analysis.node_numerics import (
    DIFFERS,
    EQUAL,
    INCONCLUSIVE,
    NOT_APPLICABLE,
    TIED,
    UNSTABLE,
    Trajectory,
    compare_numerics,
)


def outcomes(**digests):
    """The outcome of each node; a node's repeats are letters."""
    actual = compare_numerics(
        {name: [Trajectory(letter, (1.0, 0.5)) for letter in text] for name, text in digests.items()}
    )
    return [numerics.outcome for numerics in actual.values()]


def test_equal_digests():
    assert outcomes(n1="aa", n2="aa", n3="aa") == [EQUAL] * 3
    assert outcomes(n1="a", n2="a") == [EQUAL] * 2


def test_the_minority_differs():
    assert outcomes(n1="aa", n2="bb", n3="aa", n4="aa") == [EQUAL, DIFFERS, EQUAL, EQUAL]


def test_of_two_nodes_one_is_wrong():
    assert outcomes(n1="aa", n2="bb") == [TIED, TIED]
    assert outcomes(n1="aa", n2="aa", n3="bb", n4="bb") == [TIED] * 4


def test_a_case_that_is_not_deterministic_is_not_compared():
    assert outcomes(n1="ab", n2="cd", n3="ef") == [NOT_APPLICABLE] * 3
    assert outcomes(n1="aa", n2="cd", n3="ef") == [NOT_APPLICABLE] * 3


def test_one_repeat_shows_no_determinism():
    assert outcomes(n1="a", n2="b") == [NOT_APPLICABLE] * 2


def test_an_unstable_node_among_stable_ones():
    assert outcomes(n1="aa", n2="ab", n3="aa") == [EQUAL, UNSTABLE, EQUAL]


def test_one_node_has_nothing_to_compare_with():
    assert outcomes(n1="aa") == [INCONCLUSIVE]


def test_no_digest():
    actual = compare_numerics({name: [Trajectory("", ())] for name in ("n1", "n2")})
    assert {numerics.outcome for numerics in actual.values()} == {NOT_APPLICABLE}


def test_the_first_loss_that_differs_is_named():
    sound = [Trajectory("a", (2.0, 1.0, 0.5))] * 2
    actual = compare_numerics({"n1": sound, "n2": [Trajectory("b", (2.0, 1.5, 0.5))] * 2, "n3": sound})
    assert "2 of 3 nodes, from the loss of step 2 on" in actual["n2"].detail
