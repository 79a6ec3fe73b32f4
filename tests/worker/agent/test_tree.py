"""The tree's arithmetic: every node has one way to the coordinator, and no node serves more links than the fan-out."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.worker.agent.tree import FAN_OUT, Tree

TREES = st.builds(Tree, st.integers(1, 3000), st.integers(1, FAN_OUT))


def test_few_nodes_have_no_relay():
    tree = Tree(FAN_OUT + 1)
    assert {tree.parent(node) for node in range(tree.nodes)} == {0}
    assert not any(map(tree.has_relay, range(tree.nodes)))


def test_the_first_node_more_connects_to_node_1():
    tree = Tree(FAN_OUT + 2)
    assert tree.parent(FAN_OUT + 1) == 1
    assert [node for node in range(tree.nodes) if tree.has_relay(node)] == [1]


@pytest.mark.parametrize(
    ("node", "way"), [(64, [64]), (65, [65, 1]), (4160, [4160, 64]), (4161, [4161, 65, 1])]
)
def test_the_way_of_a_node_to_the_coordinator(node, way):
    tree, seen = Tree(10_000), []
    while node:
        seen.append(node)
        node = tree.parent(node)
    assert seen == way


@given(TREES)
def test_no_node_serves_more_links_than_the_fan_out(tree):
    links = Counter(tree.parent(node) for node in range(1, tree.nodes))
    assert max(links.values(), default=0) <= tree.fan_out
    assert all(tree.has_relay(node) == (links[node] > 0) for node in range(1, tree.nodes))


@given(TREES, st.data())
def test_a_node_is_reached_through_the_branch_on_its_way_to_the_coordinator(tree, data):
    numbers = st.integers(0, tree.nodes - 1)
    node, root = data.draw(numbers), data.draw(numbers)
    way = [node]
    while way[-1]:
        way.append(tree.parent(way[-1]))
    expected = way[way.index(root) - 1] if root in way and root != node else None
    if node == root == 0:
        expected = 0  # its agent connects to the coordinator as others do
    assert tree.branch(node, root) == expected
    assert tree.is_behind(node, root) == (root in way if root else node == 0)


@pytest.mark.parametrize("node", [-1, 10])
def test_a_node_of_another_case_is_not_reached(node):
    assert Tree(10).branch(node, 0) is None
