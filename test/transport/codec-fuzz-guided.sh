#!/bin/sh
# Coverage-guided fuzzing of the codec: sh test/transport/codec-fuzz-guided.sh [SECONDS]. jsfuzz instruments what is required,
# so the codec is built as CommonJS beside the ordinary build; it is fetched when it runs and is no dependency.
set -eu
seconds=${1:-60}
out=dist-bench/guided
mkdir -p "$out/corpus"
npx --no-install tsc --ignoreConfig test/transport/codec-fuzz-guided.ts --target es2022 --module commonjs \
  --moduleResolution bundler --rootDir . --outDir "$out" --skipLibCheck --types node
echo '{ "type": "commonjs" }' >"$out/package.json"
printf 'GET / HTTP/1.1\r\nHost: a\r\n\r\n' >"$out/corpus/get"
printf 'POST /a?b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: 1\r\n\r\n' >"$out/corpus/chunked"
printf 'PUT / HTTP/1.0\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi' >"$out/corpus/length"
cd "$out"
status=0
timeout "$seconds" npx --yes jsfuzz@1.0.15 test/transport/codec-fuzz-guided.js corpus --only-ascii=false || status=$?
# 124: the time was over and nothing was found.
[ "$status" -eq 124 ] && echo "$seconds s: no input was read differently" && exit 0
exit "$status"
