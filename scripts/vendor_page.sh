#!/bin/sh
# The third-party files of the page, from their npm packages at the versions named here, and the tools that check it.
#   scripts/vendor_page.sh           fetch the fonts into app/web/fonts; git shows whether anything differs
#   scripts/vendor_page.sh tools     axe-core and the TypeScript compiler into .venv/page, for `make test-page`
set -eu
cd "$(dirname "$0")/.."
FONT=@fontsource-variable/noto-sans@5.3.0
TOOLS="axe-core@4.14.1 typescript@5.9.3"
if [ "${1:-}" = tools ]; then
    mkdir -p .venv/page
    # shellcheck disable=SC2086
    npm install --silent --no-audit --no-fund --prefix .venv/page $TOOLS
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && tar xzf "$(npm pack --silent $FONT)")
for subset in latin latin-ext greek vietnamese; do
    cp "$folder/package/files/noto-sans-$subset-wght-normal.woff2" app/web/fonts/
done
cp "$folder/package/LICENSE" app/web/fonts/LICENSE.txt
