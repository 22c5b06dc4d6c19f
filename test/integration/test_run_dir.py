"""The run directory: how it is named, and what of the user's own stays in it."""

import os
import shutil
import unittest

from test_cluster import ClusterCase


class TestRunDirectory(ClusterCase):
    def test_a_directory_of_the_users_own_stays(self):
        os.mkdir(self.run_dir)
        note = os.path.join(self.run_dir, "note.txt")
        with open(note, "w") as file:
            file.write("mine")
        self.up(1)
        self.down()
        self.assert_nothing_is_left("note.txt")

    def test_a_directory_of_the_users_own_is_left_as_it_was(self):
        """By one that cannot take the lock, and by one that cannot begin with it."""
        for name, make in (
            ("supervisor.lock", lambda path: os.symlink("/nonexistent/file", path)),
            ("slabyard.log", os.mkdir),
        ):
            os.mkdir(self.run_dir)
            path = os.path.join(self.run_dir, name)
            make(path)
            done = self.up(1, status=1)
            self.assertIn(path, done.stderr)
            self.assertEqual(os.listdir(self.run_dir), [name])
            shutil.rmtree(self.run_dir)

    def test_where_the_run_directory_is_named(self):
        self.up(1)
        self.slabyard("--run-dir", self.run_dir, "status")
        self.slabyard(f"--run-dir={self.run_dir}", "status", "--json")
        self.slabyard("status", env={"SLABYARD_RUN_DIR": self.run_dir})
        elsewhere = {"SLABYARD_RUN_DIR": "/nonexistent"}
        self.slabyard("status", "--run-dir", self.run_dir, env=elsewhere)
        self.slabyard("status", env=elsewhere, status=1)
        self.slabyard("status", env={"SLABYARD_RUN_DIR": ""}, status=2)
        self.slabyard("down", env={"SLABYARD_RUN_DIR": self.run_dir})
        self.assert_nothing_is_left()


if __name__ == "__main__":
    unittest.main()
