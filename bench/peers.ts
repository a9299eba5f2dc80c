import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { selfSigned } from '../src/lib/self-signed.js'
import { findProgram, freePort, type Running, startProgram } from './process.js'
import { CIPHER, hasZstd } from './scenario-load.js'
import type { Scenario } from './scenarios.js'
import { MODSECURITY, setupFile } from './waf.js'

/** `tlsPort`: of those that can be asked over TLS. */
export type RunningPeer = Running & { readonly port: number; readonly tlsPort?: number }

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

/** `main.js` of this build. */
export const OWN_MAIN = here('../src/main.js')
const sluice = build('sluice', OWN_MAIN)

/** What a policy or a log adds is measured against this, in the same rounds. */
const passThrough: Peer = {
  name: 'sluice, pass-through',
  missing: () => undefined,
  can: ({ policy, accessLog, refused, coding, replaced }) =>
    (policy !== undefined || accessLog) && !refused && coding === undefined && replaced === undefined,
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
    const args = [here('./floor.js'), mode, String(port), String(upstream), chain, key, CIPHER]
    return { ...(await startProgram(process.execPath, args, port, { cpu: CPU })), port }
  }
}

/** Sluice as the file `main` starts it. `flags`: of Node. `output`: takes what Node writes about itself. */
export function build(
  name: string,
  main: string,
  { flags = [], output }: { flags?: readonly string[]; output?: (text: string) => void } = {}
): Peer {
  return {
    name,
    missing: () => (existsSync(main) ? undefined : `there is no ${main}`),
    can: ({ coding }) => coding !== 'zstd' || hasZstd,
    async start(scenario, upstream, threads = 1) {
      const { env, port, tlsPort } = await settings(scenario, upstream, threads)
      const words = [...flags, main, 'start']
      const how = { cpu: cpus(threads), env, ...(output === undefined ? {} : { output }) }
      return { ...(await startProgram(process.execPath, words, [port, tlsPort], how)), port, tlsPort }
    }
  }
}

/** Returns ports and environment of a start of Sluice. */
async function settings(
  scenario: Scenario,
  upstream: number,
  threads: number
): Promise<{ env: Record<string, string>; port: number; tlsPort: number }> {
  const [port, tlsPort] = [await freePort(), await freePort()]
  const policy = join(folder, `policy-${port}.yaml`)
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
    SLUICE_LIMITS_BUFFERED_BODIES_SHARE: '1',
    ...(threads === 1 ? {} : { SLUICE_WORKERS: String(threads) }),
    ...(scenario.rules === undefined ? {} : { SLUICE_WAF_RULES: scenario.rules }),
    ...(scenario.policy === undefined ? {} : { SLUICE_POLICY: policy })
  }
  return { env, port, tlsPort }
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

/** Module of Debian's `libnginx-mod-http-brotli-filter`. */
const BROTLI = '/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so'

/** What ModSecurity adds is measured against this. */
const nginxPassThrough: Peer = {
  name: 'nginx, pass-through',
  missing: () => lacks('nginx'),
  can: ({ rules }) => rules !== undefined,
  start: ({ rules: _, ...scenario }, upstream) => nginx.start({ ...scenario, name: 'pass' }, upstream)
}

/** Returns what makes nginx compress or replace, with the levels that Sluice has. */
function changes({ coding, replaced }: Scenario): string {
  if (coding === 'gzip') return 'gzip on; gzip_comp_level 6;'
  if (coding === 'br') return 'brotli on; brotli_comp_level 4; brotli_window 256k;'
  return replaced === undefined ? '' : `sub_filter '${replaced.from}' '${replaced.to}'; sub_filter_once off;`
}

const nginx: Peer = {
  name: 'nginx',
  missing: () => lacks('nginx'),
  // Debian has no module of zstd for nginx.
  can: ({ rules, coding }) =>
    (rules === undefined || existsSync(MODSECURITY)) &&
    (coding === undefined || coding === 'gzip' || (coding === 'br' && existsSync(BROTLI))),
  async start(scenario, upstream, threads = 1) {
    const [port, tlsPort] = [await freePort(), await freePort()]
    const { chain, key } = await certificate
    const base = join(folder, `nginx-${port}`)
    mkdirSync(base)
    const limit =
      scenario.limit === 'all'
        ? 'limit_req zone=all burst=1000000 nodelay;'
        : scenario.limit === 'one'
          ? 'limit_req zone=one; limit_req_status 429;'
          : ''
    const [firewallModule, firewall] =
      scenario.rules === undefined ? ['', ''] : [`load_module ${MODSECURITY};`, modSecurity(scenario.rules, base)]
    const module = scenario.coding === 'br' ? `load_module ${BROTLI};` : firewallModule
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
           ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites ${CIPHER}; ssl_ecdh_curve X25519;
           ssl_certificate ${chain}; ssl_certificate_key ${key}; location / { ${limit} ${firewall} ${changes(scenario)} proxy_pass http://origin;
           proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
           proxy_set_header X-Forwarded-For $remote_addr; } }
       }`
    )
    const args = ['-p', base, '-c', join(base, 'nginx.conf')]
    return {
      ...(await startProgram(findProgram('nginx') as string, args, [port, tlsPort], { cpu: cpus(threads) })),
      port,
      tlsPort
    }
  }
}

const haproxy: Peer = {
  name: 'haproxy',
  missing: () => lacks('haproxy'),
  can: ({ accessLog, rules, coding, replaced }) =>
    !accessLog && rules === undefined && replaced === undefined && (coding === undefined || coding === 'gzip'),
  async start(scenario, upstream, threads = 1) {
    const [port, tlsPort] = [await freePort(), await freePort()]
    const { both } = await certificate
    const file = join(folder, `haproxy-${port}.cfg`)
    const table = 'stick-table type ip size 100k expire 60s store http_req_rate(60s)\n  http-request track-sc0 src'
    const limit =
      scenario.limit === undefined
        ? ''
        : `${table}\n  http-request deny deny_status 429 if { sc_http_req_rate(0) gt ${scenario.refused ? 1 : 2_000_000_000} }`
    const coded = scenario.coding === undefined ? '' : 'compression algo gzip\n  compression type text/html'
    writeFileSync(
      file,
      `global\n  nbthread ${threads}\n  maxconn 4096\n  ssl-default-bind-ciphersuites ${CIPHER}\n  ssl-default-bind-options ssl-min-ver TLSv1.3\n  ssl-default-bind-curves X25519\ndefaults\n  mode http\n  timeout client 30s\n  timeout server 30s\n  timeout connect 5s
  http-reuse always\nfrontend in\n  bind 127.0.0.1:${port}\n  bind 127.0.0.1:${tlsPort} ssl crt ${both} alpn h2,http/1.1\n  option forwardfor\n  ${limit}\n  ${coded}\n  default_backend origin
backend origin\n  server origin 127.0.0.1:${upstream}\n`
    )
    return {
      ...(await startProgram(findProgram('haproxy') as string, ['-db', '-f', file], [port, tlsPort], {
        cpu: cpus(threads)
      })),
      port,
      tlsPort
    }
  }
}

const caddy: Peer = {
  name: 'caddy',
  missing: () => lacks('caddy'),
  can: ({ policy, accessLog, coding }) =>
    (policy === undefined && !accessLog) || coding === 'gzip' || coding === 'zstd',
  async start({ coding }, upstream) {
    const [port, tlsPort] = [await freePort(), await freePort()]
    const { chain, key } = await certificate
    const file = join(folder, `caddy-${port}.json`)
    const forward = { handler: 'reverse_proxy', upstreams: [{ dial: `127.0.0.1:${upstream}` }] }
    const encodings = coding === 'gzip' ? { gzip: { level: 6 } } : { zstd: {} }
    const encode = coding === undefined ? [] : [{ handler: 'encode', encodings }]
    const usual = {
      automatic_https: { disable: true },
      protocols: ['h1', 'h2'],
      routes: [{ handle: [...encode, forward] }]
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
                tls_connection_policies: [{ default_sni: 'localhost', protocol_min: 'tls1.3', curves: ['x25519'] }]
              }
            }
          },
          tls: { certificates: { load_files: [{ certificate: chain, key }] } }
        }
      })
    )
    const env = { GOMAXPROCS: '1', HOME: folder }
    const args = ['run', '--config', file]
    return {
      ...(await startProgram(findProgram('caddy') as string, args, [port, tlsPort], { cpu: CPU, env })),
      port,
      tlsPort
    }
  }
}

export const peers: readonly Peer[] = [sluice, passThrough, floor, httpProxy, nginx, nginxPassThrough, haproxy, caddy]
