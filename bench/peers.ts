import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { selfSigned } from '../src/lib/self-signed.js'
import { findProgram, freePort, type Running, startProgram } from './process.js'
import type { Scenario } from './scenarios.js'
import { MODSECURITY, setupFile } from './waf.js'

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

/** Files of a certificate for all: PEM of the chain, of the key, and of both. */
const certificate = (async () => {
  const { chain, privateKey } = await selfSigned('localhost', ['localhost'], Date.now())
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  return {
    chain: file('cert.pem', chain),
    key: file('key.pem', privateKey),
    both: file('both.pem', `${chain}\n${privateKey}`)
  }
})()

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
  can: ({ policy, accessLog, refused, secure }) => secure !== 'h2' && (refused || (policy === undefined && !accessLog)),
  async start({ refused, secure }, upstream) {
    const port = await freePort()
    const { chain, key } = await certificate
    const mode = refused ? 'refuse' : secure === undefined ? 'proxy' : 'tls'
    const args = [here('./floor.js'), mode, String(port), String(upstream), chain, key]
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
    ...(scenario.rules === undefined ? {} : { SLUICE_WAF_RULES: scenario.rules }),
    ...(scenario.policy === undefined ? {} : { SLUICE_POLICY: policy })
  }
  const running = await startProgram(process.execPath, [main, 'start'], port, { cpu: cpus(threads), env })
  return { ...running, port, tlsPort }
}

const httpProxy: Peer = {
  name: 'http-proxy',
  missing: () => undefined,
  can: ({ policy, accessLog, secure, upload }) =>
    policy === undefined && !accessLog && secure === undefined && upload === undefined,
  async start(_scenario, upstream) {
    const port = await freePort()
    const args = [here('./plain-http-proxy.js'), String(port), String(upstream)]
    return { ...(await startProgram(process.execPath, args, port, { cpu: CPU })), port }
  }
}

/** Returns the configuration of ModSecurity with the rules of a folder for requests, and writes its file to `base`. */
function modSecurity(rules: string, base: string): string {
  writeFileSync(
    join(base, 'modsecurity.conf'),
    `SecRuleEngine On
SecRequestBodyAccess On
SecResponseBodyAccess Off
SecAuditEngine Off
SecRule REQUEST_HEADERS:Content-Type "^application/json" "id:200001,phase:1,t:none,t:lowercase,pass,nolog,ctl:requestBodyProcessor=JSON"
Include ${setupFile(rules)}
Include ${rules}/rules/REQUEST-*.conf
`
  )
  return `modsecurity on; modsecurity_rules_file ${base}/modsecurity.conf;`
}

/** What ModSecurity adds is measured against this. */
const nginxPassThrough: Peer = {
  name: 'nginx, pass-through',
  missing: () => lacks('nginx'),
  can: ({ rules }) => rules !== undefined,
  start: ({ rules: _, ...scenario }, upstream) => nginx.start({ ...scenario, name: 'pass' }, upstream)
}

const nginx: Peer = {
  name: 'nginx',
  missing: () => lacks('nginx'),
  can: ({ rules }) => rules === undefined || existsSync(MODSECURITY),
  async start(scenario, upstream, threads = 1) {
    const [port, tlsPort] = [await freePort(), await freePort()]
    const { chain, key } = await certificate
    const base = join(folder, `nginx-${port}`)
    mkdirSync(base)
    const limit =
      scenario.name === 'policy'
        ? 'limit_req zone=all burst=1000000 nodelay;'
        : scenario.name === 'flood'
          ? 'limit_req zone=one; limit_req_status 429;'
          : ''
    const [module, firewall] =
      scenario.rules === undefined ? ['', ''] : [`load_module ${MODSECURITY};`, modSecurity(scenario.rules, base)]
    writeFileSync(
      join(base, 'nginx.conf'),
      `${module} daemon off; worker_processes ${threads}; pid ${base}/pid; error_log ${base}/error.log crit;
       events { worker_connections 4096; }
       http {
         access_log ${scenario.accessLog ? `${base}/access.log` : 'off'};
         client_body_temp_path ${base}/a; proxy_temp_path ${base}/b; fastcgi_temp_path ${base}/c;
         uwsgi_temp_path ${base}/d; scgi_temp_path ${base}/e;
         keepalive_requests 100000000; client_body_buffer_size 2m; client_max_body_size 0; proxy_max_temp_file_size 0;
         limit_req_zone $binary_remote_addr zone=all:10m rate=1000000r/s;
         limit_req_zone $binary_remote_addr zone=one:10m rate=1r/m;
         upstream origin { server 127.0.0.1:${upstream}; keepalive 256; keepalive_requests 100000000; }
         server { listen 127.0.0.1:${port}; listen 127.0.0.1:${tlsPort} ssl http2;
           ssl_certificate ${chain}; ssl_certificate_key ${key}; location / { ${limit} ${firewall} proxy_pass http://origin;
           proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
           proxy_set_header X-Forwarded-For $remote_addr; } }
       }`
    )
    const args = ['-p', base, '-c', join(base, 'nginx.conf')]
    return {
      ...(await startProgram(findProgram('nginx') as string, args, port, { cpu: cpus(threads) })),
      port,
      tlsPort
    }
  }
}

const haproxy: Peer = {
  name: 'haproxy',
  missing: () => lacks('haproxy'),
  can: ({ accessLog, rules }) => !accessLog && rules === undefined,
  async start(scenario, upstream, threads = 1) {
    const [port, tlsPort] = [await freePort(), await freePort()]
    const { both } = await certificate
    const file = join(folder, `haproxy-${port}.cfg`)
    const table = 'stick-table type ip size 100k expire 60s store http_req_rate(60s)\n  http-request track-sc0 src'
    const limit =
      scenario.policy === undefined
        ? ''
        : `${table}\n  http-request deny deny_status 429 if { sc_http_req_rate(0) gt ${scenario.refused ? 1 : 2_000_000_000} }`
    writeFileSync(
      file,
      `global\n  nbthread ${threads}\n  maxconn 4096\ndefaults\n  mode http\n  timeout client 30s\n  timeout server 30s\n  timeout connect 5s
  http-reuse always\nfrontend in\n  bind 127.0.0.1:${port}\n  bind 127.0.0.1:${tlsPort} ssl crt ${both} alpn h2,http/1.1\n  option forwardfor\n  ${limit}\n  default_backend origin
backend origin\n  server origin 127.0.0.1:${upstream}\n`
    )
    return {
      ...(await startProgram(findProgram('haproxy') as string, ['-db', '-f', file], port, { cpu: cpus(threads) })),
      port,
      tlsPort
    }
  }
}

const caddy: Peer = {
  name: 'caddy',
  missing: () => lacks('caddy'),
  can: ({ policy, accessLog }) => policy === undefined && !accessLog,
  async start(_scenario, upstream) {
    const [port, tlsPort] = [await freePort(), await freePort()]
    const { chain, key } = await certificate
    const file = join(folder, `caddy-${port}.json`)
    const handler = { handler: 'reverse_proxy', upstreams: [{ dial: `127.0.0.1:${upstream}` }] }
    const usual = {
      automatic_https: { disable: true },
      protocols: ['h1', 'h2'],
      routes: [{ handle: [handler] }]
    }
    writeFileSync(
      file,
      JSON.stringify({
        admin: { disabled: true },
        logging: { logs: { default: { level: 'ERROR' } } },
        apps: {
          http: {
            servers: {
              in: { ...usual, listen: [`127.0.0.1:${port}`] },
              secure: {
                ...usual,
                listen: [`127.0.0.1:${tlsPort}`],
                tls_connection_policies: [{ default_sni: 'localhost' }]
              }
            }
          },
          tls: { certificates: { load_files: [{ certificate: chain, key }] } }
        }
      })
    )
    const env = { GOMAXPROCS: '1', HOME: folder }
    const args = ['run', '--config', file]
    return { ...(await startProgram(findProgram('caddy') as string, args, port, { cpu: CPU, env })), port, tlsPort }
  }
}

export const peers: readonly Peer[] = [sluice, passThrough, floor, httpProxy, nginx, nginxPassThrough, haproxy, caddy]
