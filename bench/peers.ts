import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findProgram, freePort, type Running, startProgram } from './process.js'
import type { Scenario } from './scenarios.js'

/** `tlsPort`: of those that can be asked over TLS. */
type RunningPeer = Running & { readonly port: number; readonly tlsPort?: number }

export interface Peer {
  readonly name: string
  /** Why it is left out, or undefined. */
  missing(): string | undefined
  can(scenario: Scenario): boolean
  /** `threads`: those that carry traffic, each with a CPU; left out: one. */
  start(scenario: Scenario, upstream: number, threads?: number): Promise<RunningPeer>
}

/** A proxy with one thread has this CPU, and load generator and upstream share the other; one with more threads has all. */
const CPU = 0
const cpus = (threads: number) => (threads === 1 ? CPU : `0-${threads - 1}`)
const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
const here = (file: string) => fileURLToPath(new URL(file, import.meta.url))

function lacks(program: string): string | undefined {
  return findProgram(program) === undefined ? `${program} is not installed` : undefined
}

const sluice = build('sluice', here('../src/main.js'))

/** What a policy or a log adds is measured against this, in the same rounds. */
const passThrough: Peer = {
  name: 'sluice, pass-through',
  missing: () => undefined,
  can: ({ policy, accessLog, refused }) => (policy !== undefined || accessLog) && !refused,
  start: (scenario, upstream) =>
    sluice.start({ ...scenario, name: 'pass', policy: undefined, accessLog: false }, upstream)
}

/** The least that an exchange costs on the sockets of Node. */
const floor: Peer = {
  name: 'node:net floor',
  missing: () => undefined,
  can: ({ policy, accessLog, refused }) => refused || (policy === undefined && !accessLog),
  async start({ refused }, upstream) {
    const port = await freePort()
    const args = [here('./floor.js'), refused ? 'refuse' : 'proxy', String(port), String(upstream)]
    return { ...(await startProgram(process.execPath, args, port, { cpu: CPU })), port }
  }
}

/** Sluice as the file `main` starts it. */
export function build(name: string, main: string): Peer {
  return {
    name,
    missing: () => undefined,
    can: () => true,
    start: (scenario, upstream, threads = 1) => startBuild(main, scenario, upstream, threads)
  }
}

async function startBuild(
  main: string,
  scenario: Scenario,
  upstream: number,
  threads: number
): ReturnType<Peer['start']> {
  const [port, tlsPort] = [await freePort(), await freePort()]
  const policy = join(folder, `${scenario.name}.yaml`)
  writeFileSync(policy, scenario.policy ?? '')
  const env = {
    SLUICE_LISTEN: `127.0.0.1:${port}`,
    SLUICE_LISTENERS: `https://127.0.0.1:${tlsPort}`,
    SLUICE_API_LISTEN: '127.0.0.1:0',
    SLUICE_API_KEY: 'a-key-for-the-benchmark',
    SLUICE_DATA: ':memory:',
    SLUICE_UPSTREAM: `http://127.0.0.1:${upstream}`,
    SLUICE_ACCESS_LOG: scenario.accessLog ? 'on' : 'off',
    SLUICE_LOG_LEVEL: 'error',
    SLUICE_LIMITS_CONNECTIONS: '20000',
    SLUICE_LIMITS_CONNECTIONS_PER_ADDRESS: '0',
    ...(threads === 1 ? {} : { SLUICE_WORKERS: String(threads) }),
    ...(scenario.policy === undefined ? {} : { SLUICE_POLICY: policy })
  }
  const running = await startProgram(process.execPath, [main, 'start'], port, { cpu: cpus(threads), env })
  return { ...running, port, tlsPort }
}

const httpProxy: Peer = {
  name: 'http-proxy',
  missing: () => undefined,
  can: ({ policy, accessLog }) => policy === undefined && !accessLog,
  async start(_scenario, upstream) {
    const port = await freePort()
    const args = [here('./plain-http-proxy.js'), String(port), String(upstream)]
    return { ...(await startProgram(process.execPath, args, port, { cpu: CPU })), port }
  }
}

const nginx: Peer = {
  name: 'nginx',
  missing: () => lacks('nginx'),
  can: () => true,
  async start(scenario, upstream, threads = 1) {
    const port = await freePort()
    const base = join(folder, `nginx-${port}`)
    mkdirSync(base)
    const limit =
      scenario.name === 'policy'
        ? 'limit_req zone=all burst=1000000 nodelay;'
        : scenario.name === 'flood'
          ? 'limit_req zone=one; limit_req_status 429;'
          : ''
    writeFileSync(
      join(base, 'nginx.conf'),
      `daemon off; worker_processes ${threads}; pid ${base}/pid; error_log ${base}/error.log crit;
       events { worker_connections 4096; }
       http {
         access_log ${scenario.accessLog ? `${base}/access.log` : 'off'};
         client_body_temp_path ${base}/a; proxy_temp_path ${base}/b; fastcgi_temp_path ${base}/c;
         uwsgi_temp_path ${base}/d; scgi_temp_path ${base}/e;
         keepalive_requests 100000000; client_body_buffer_size 2m; proxy_max_temp_file_size 0;
         limit_req_zone $binary_remote_addr zone=all:10m rate=1000000r/s;
         limit_req_zone $binary_remote_addr zone=one:10m rate=1r/m;
         upstream origin { server 127.0.0.1:${upstream}; keepalive 256; keepalive_requests 100000000; }
         server { listen 127.0.0.1:${port}; location / { ${limit} proxy_pass http://origin;
           proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
           proxy_set_header X-Forwarded-For $remote_addr; } }
       }`
    )
    const args = ['-p', base, '-c', join(base, 'nginx.conf')]
    return { ...(await startProgram(findProgram('nginx') as string, args, port, { cpu: cpus(threads) })), port }
  }
}

const haproxy: Peer = {
  name: 'haproxy',
  missing: () => lacks('haproxy'),
  can: ({ accessLog }) => !accessLog,
  async start(scenario, upstream, threads = 1) {
    const port = await freePort()
    const file = join(folder, `haproxy-${port}.cfg`)
    const table = 'stick-table type ip size 100k expire 60s store http_req_rate(60s)\n  http-request track-sc0 src'
    const limit =
      scenario.policy === undefined
        ? ''
        : `${table}\n  http-request deny deny_status 429 if { sc_http_req_rate(0) gt ${scenario.refused ? 1 : 2_000_000_000} }`
    writeFileSync(
      file,
      `global\n  nbthread ${threads}\n  maxconn 4096\ndefaults\n  mode http\n  timeout client 30s\n  timeout server 30s\n  timeout connect 5s
  http-reuse always\nfrontend in\n  bind 127.0.0.1:${port}\n  option forwardfor\n  ${limit}\n  default_backend origin
backend origin\n  server origin 127.0.0.1:${upstream}\n`
    )
    return {
      ...(await startProgram(findProgram('haproxy') as string, ['-db', '-f', file], port, { cpu: cpus(threads) })),
      port
    }
  }
}

const caddy: Peer = {
  name: 'caddy',
  missing: () => lacks('caddy'),
  can: ({ policy, accessLog }) => policy === undefined && !accessLog,
  async start(_scenario, upstream) {
    const port = await freePort()
    const file = join(folder, `caddy-${port}.json`)
    const handler = { handler: 'reverse_proxy', upstreams: [{ dial: `127.0.0.1:${upstream}` }] }
    writeFileSync(
      file,
      JSON.stringify({
        admin: { disabled: true },
        logging: { logs: { default: { level: 'ERROR' } } },
        apps: {
          http: {
            servers: {
              in: { listen: [`127.0.0.1:${port}`], automatic_https: { disable: true }, routes: [{ handle: [handler] }] }
            }
          }
        }
      })
    )
    const env = { GOMAXPROCS: '1', HOME: folder }
    const args = ['run', '--config', file]
    return { ...(await startProgram(findProgram('caddy') as string, args, port, { cpu: CPU, env })), port }
  }
}

export const peers: readonly Peer[] = [sluice, passThrough, floor, httpProxy, nginx, haproxy, caddy]
