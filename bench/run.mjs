import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** `npm run bench`: builds and runs the benchmark; `--help` only says what it does. */
const HELP = `npm run bench -- [options]: Sluice beside nginx, HAProxy, Caddy and http-proxy, on this machine.

  --quick             one round of one second, pass-through and five rules alone
  --rounds <n>        rounds of each scenario (default: 3); peers take turns in a round
  --seconds <n>       seconds of load of each peer in a round (default: 3)
  --warm <n>          seconds of load before the rounds (default: 4, with bodies 12)
  --only <names>      some of pass, log, policy, flood, download, upload, tls-download,
                      h2-download, policy-download, policy-upload, compress, replace, h2,
                      grpc, latency, files, idle, waf, with commas between
  --peers <names>     those that are measured, by the names in the tables, with commas between
  --beside <folder>   another build of Sluice, by the folder of its main.js
  --flags <flags>     this build once more, with flags of Node (with blanks between)
  --workers <n>       with one thread and with n (Node 24); sluice, nginx and haproxy alone
  --calls             counts system calls (strace) and garbage of scenarios with bodies too
  --hogs <n>          beside n processes that fill the caches (stress-ng --cache)
  --connections <n>   idle connections of "idle" (default: 10000)

Time: --quick takes about a minute. All of it takes about 15 minutes: for each scenario start and warm-up, then rounds x seconds x peers.
Tools: none beside Node has to be there; h2load (Debian's nghttp2-client) for bodies, stress-ng for --hogs. nginx, haproxy and caddy in the PATH are measured too; those that are absent are named and left out.
compress: br beside nginx with libnginx-mod-http-brotli-filter, zstd beside Caddy and with a Node that has it (22.15).
waf: the rules of the folder SLUICE_CRS, or Debian's modsecurity-crs, beside nginx with libnginx-mod-http-modsecurity.
Load, upstream and proxies share the machine: use a quiet one. bench/README.md says what the figures mean.
`

const words = process.argv.slice(2)
const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Runs a command to its end; its failure is that of this process. */
function run(command, args) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit' })
  if (error !== undefined) throw error
  if (status !== 0) process.exit(status ?? 1)
}

if (words.some((word) => word === '--help' || word === '-h')) process.stdout.write(HELP)
else {
  run('npm', ['run', '--silent', 'build:bench'])
  run(process.execPath, [join('dist-bench', 'bench', 'run.js'), ...words])
}
