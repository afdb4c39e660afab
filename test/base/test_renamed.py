"""Former parameter names are refused with names that exist."""

from pathlib import Path

import pytest
import yaml

from mm_ros.base.errors import MmRosError
from mm_ros.base.renamed import PARAMETERS, refuse_renamed_in

AVATAR = yaml.safe_load((Path(__file__).parents[2] / "config" / "avatar.yaml").read_text())


@pytest.mark.parametrize(("node", "former"), PARAMETERS)
def test_a_former_parameter_in_a_file_is_refused_with_its_present_name(node: str, former: str):
    name = PARAMETERS[node, former]
    existing = {key.rsplit("/", 1)[-1]: section["ros__parameters"] for key, section in AVATAR.items()}
    owner, _, present = name.rpartition(".")
    assert present in existing.get(owner or node, {present}) and former not in existing.get(node, {})
    with pytest.raises(MmRosError, match=f"'{former}' is now named '{name}'"):
        refuse_renamed_in({"/**": {node: {"ros__parameters": {former: 0.5}}}})


def test_a_name_that_another_node_has_now_may_be_given_to_all_nodes():
    refuse_renamed_in({"/**": {"ros__parameters": {"urdf": "robot.urdf"}}})
    with pytest.raises(MmRosError, match="use_body_trackers"):
        refuse_renamed_in({"/**": {"ros__parameters": {"use_worn": True}}})
