#!/usr/bin/env bash
# Checks the recipes below packaging/ as far as the tools for it are here, and names what it leaves out. Installs none.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
skip() { echo "skipped: $1" >&2; }

for recipe in packaging/{homebrew/fobs.rb,nix/package.nix,conda/recipe.yaml,oci/Containerfile} docs/install.md; do
    grep -q -F "$version" "$recipe" || { echo "$recipe is not about version $version" >&2 && exit 1; }
done
if command -v shellcheck >/dev/null; then
    shellcheck packaging/tarball/install.sh packaging/deb/{postinst,prerm,postrm} scripts/*.sh
    shellcheck -s sh packaging/rpm/*.sh
else
    skip "the scripts need shellcheck"
fi
if command -v ruby >/dev/null; then ruby -c packaging/homebrew/fobs.rb; else skip "the formula needs ruby"; fi
if command -v nix-instantiate >/dev/null; then
    nix-instantiate --parse packaging/nix/package.nix >/dev/null
else
    skip "the Nix expression needs nix-instantiate"
fi
if command -v hadolint >/dev/null; then hadolint packaging/oci/Containerfile; else skip "the Containerfile needs hadolint"; fi
if python3 -c 'import rattler_build' 2>/dev/null; then
    python3 -c '
import rattler_build
recipe = rattler_build.Stage0Recipe.from_yaml(open("packaging/conda/recipe.yaml").read())
recipe.render(rattler_build.VariantConfig({"c_stdlib": ["sysroot"]}))'
else
    skip "the conda recipe needs py-rattler-build (PyPI)"
fi
if command -v promtool >/dev/null; then
    promtool check rules packaging/monitoring/fobs-alerts.yml
else
    skip "the alerts need promtool"
fi
if command -v rpmspec >/dev/null; then
    rpmspec --parse --define "fobs_version $version" --define "fobs_root /" --define "fobs_scripts $PWD/packaging/rpm" \
        --define "fobs_date Fri Nov 27 2026" packaging/rpm/fobs.spec >/dev/null
else
    skip "the .rpm's spec needs rpmspec"
fi
