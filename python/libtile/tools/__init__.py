# SPDX-License-Identifier: Apache-2.0
"""What programs use beside kernels: `libtile.tools.tensor_descriptor`."""
