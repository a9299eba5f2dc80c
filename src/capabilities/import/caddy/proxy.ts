import { secondsOfDuration } from '../durations.js'
import {
  close,
  EXACT,
  type ImportedTimeouts,
  type ImportedUpstream,
  notHere,
  type RouteAction,
  type Verdict
} from '../model.js'
import type { Ledger } from '../report.js'
import { queryParameter, requestField } from '../requests-in-cel.js'
import { type Converted, readRequestHeader, readResponseHeader } from './answers.js'
import { keepVariables } from './placeholders.js'
import type { CaddyDirective } from './syntax.js'

export interface ReadProxy {
  /** Missing if the servers are unknown. */
  readonly upstream?: Omit<ImportedUpstream, 'name' | 'at' | 'verdict'>
  readonly timeouts?: ImportedTimeouts
  readonly actions: readonly RouteAction[]
  readonly verdict: Verdict
}

/** Returns the URL of an upstream address of `reverse_proxy`; undefined if it has placeholders. */
function serverUrl(written: string, tls: boolean): string | undefined {
  const address = keepVariables(written)
  if (/(?<!\$)\{/.test(address) || address.startsWith('srv+')) return undefined
  const scheme = tls ? 'https' : 'http'
  if (address.startsWith('unix/')) return `http://unix:${address.slice(5)}`
  const [, given, rest = ''] = /^(?:(\w+):\/\/)?(.*)$/s.exec(address) ?? []
  const host = rest.startsWith(':') ? `127.0.0.1${rest}` : rest
  const used = given ?? scheme
  const port = /:(?:\d+|\$\{[^}]*\})$/.test(host) || host.endsWith('}') ? '' : used === 'https' ? ':443' : ':80'
  return `${used}://${host.replace(/\/$/, '')}${port}`
}

const POLICIES: Readonly<Record<string, Partial<ImportedUpstream>>> = {
  first: { balance: 'failover' },
  ip_hash: { balance: 'hash', hashKey: 'conn.client_ip' },
  client_ip_hash: { balance: 'hash', hashKey: 'conn.client_ip' },
  uri_hash: { balance: 'hash', hashKey: 'req.url.uri' },
  least_conn: { balance: 'least_requests' }
}

function balanceOf(args: readonly string[]): { balance: Partial<ImportedUpstream>; verdict: Verdict } {
  const [policy = '', name = ''] = args
  const known = POLICIES[policy]
  if (known !== undefined)
    return {
      balance: known,
      verdict:
        known.balance === 'hash'
          ? close('the same key always gets the same server, but not the one that Caddy chooses')
          : EXACT
    }
  if (policy === 'header')
    return { balance: { balance: 'hash', hashKey: requestField(name) }, verdict: close('the hash is another one') }
  if (policy === 'query')
    return { balance: { balance: 'hash', hashKey: queryParameter(name) }, verdict: close('the hash is another one') }
  if (policy === 'cookie') {
    const cookie = name === '' ? 'lb' : name
    return { balance: { stickyCookie: cookie }, verdict: close('the cookie is sealed by Sluice') }
  }
  if (policy === 'round_robin') return { balance: {}, verdict: EXACT }
  if (policy === 'random' || policy === 'random_choose')
    return { balance: {}, verdict: close('servers get requests in turn') }
  return { balance: {}, verdict: notHere(`there is no policy "${policy}"`, 'write balance of the backend') }
}

/** Differences of options that Sluice covers in another way. */
const CLOSE: Readonly<Record<string, string>> = {
  fail_duration: 'failures are counted by passive_health of the backend',
  max_fails: 'failures are counted by passive_health of the backend',
  unhealthy_status: 'failures are counted by passive_health of the backend',
  unhealthy_latency: 'failures are counted by passive_health of the backend',
  flush_interval: 'Sluice passes data on at once',
  health_interval: 'write interval of health of the backend',
  health_timeout: 'write timeout of health of the backend',
  health_port: 'the port of the server is probed',
  health_status: 'write the status of health of the backend',
  lb_try_duration: 'write retries of the backend',
  lb_try_interval: 'write retries of the backend',
  lb_retries: 'write retries of the backend',
  buffer_requests: 'Sluice does not buffer bodies',
  trusted_proxies: 'the option trusted_proxies names them for all sites'
}

/** Options whose loss would open or change a route: it answers 503. */
const CLOSING = [
  'handle_response',
  'replace_status',
  'rewrite',
  'method',
  'dynamic',
  'request_buffers',
  'response_buffers'
]

/** Reads `reverse_proxy` without its matcher, with a verdict for each line of its block. */
export function readProxy({ args, block = [] }: CaddyDirective, ledger: Ledger): ReadProxy {
  const written = [...args, ...block.flatMap(({ name, args: rest }) => (name === 'to' ? rest : []))]
  const transport = block.find(({ name }) => name === 'transport')
  const settings = transport?.block ?? []
  const isTls = settings.some(({ name }) => name.startsWith('tls'))
  const urls = written.map((address) => serverUrl(address, isTls))
  const actions: RouteAction[] = []
  let upstream: Partial<ImportedUpstream> = {}
  let isClosed =
    urls.length === 0 || urls.includes(undefined) || (transport !== undefined && transport.args[0] !== 'http')
  for (const line of block) {
    const { name, args: rest, at } = line
    if (name === 'header_up' || name === 'header_down') {
      const converted: Converted = name === 'header_up' ? readRequestHeader(line) : readResponseHeader(line)
      actions.push(...converted.actions)
      ledger.judge(at, converted.verdict)
    } else if (name === 'lb_policy') {
      const { balance, verdict } = balanceOf(rest)
      upstream = { ...upstream, ...balance }
      ledger.judge(at, verdict)
    } else if (name === 'health_uri' || name === 'health_path') {
      upstream = { ...upstream, healthPath: rest[0] ?? '/' }
      ledger.judge(at, EXACT)
    } else if (name === 'to' || name === 'transport') ledger.judge(at, EXACT)
    else if (CLOSING.includes(name)) {
      const buffers = name.endsWith('buffers')
      isClosed ||= !buffers
      ledger.judge(
        at,
        buffers
          ? close('Sluice does not buffer bodies')
          : notHere('it has no counterpart; the route answers 503', 'write actions of a policy')
      )
    } else
      ledger.judge(
        at,
        CLOSE[name] === undefined ? notHere('it has no counterpart', 'see docs/upstreams.md') : close(CLOSE[name])
      )
  }
  const { tls, timeouts, h2c } = readTransport(settings, ledger)
  if (isClosed)
    return {
      actions: [],
      verdict: notHere(
        'its servers or answers follow from what Sluice does not have; the route answers 503',
        'write a backend'
      )
    }
  const servers = (urls as string[]).map((url) => ({ url: h2c ? url.replace(/^http:/, 'h2c:') : url }))
  const isHttps = servers.some(({ url }) => url.startsWith('https:'))
  return {
    upstream: { servers, ...upstream, ...(isHttps && tls !== undefined ? { tls } : {}) },
    ...(timeouts === undefined ? {} : { timeouts }),
    actions,
    verdict: isHttps ? close('the upstream gets the host that the client asked for, as without TLS') : EXACT
  }
}

function readTransport(settings: readonly CaddyDirective[], ledger: Ledger) {
  let tls: ImportedUpstream['tls']
  let timeouts: ImportedTimeouts | undefined
  let h2c = false
  for (const { name, args, at } of settings) {
    const seconds = secondsOfDuration(args[0] ?? '', 's')
    let verdict: Verdict = EXACT
    if (name === 'tls_insecure_skip_verify') tls = { ...tls, insecure: true }
    else if (name === 'tls_server_name') tls = { ...tls, serverName: args[0] ?? '' }
    else if (name === 'tls_trusted_ca_certs' || (name === 'tls_trust_pool' && args[0] === 'file' && args.length === 2))
      tls = { ...tls, caFile: args.at(-1) ?? '' }
    else if (name === 'versions') h2c = args.includes('h2c')
    else if (name === 'dial_timeout' && seconds !== undefined) timeouts = { ...timeouts, connect: seconds }
    else if (name === 'response_header_timeout' && seconds !== undefined) timeouts = { ...timeouts, firstByte: seconds }
    else if (name === 'read_timeout' && seconds !== undefined) timeouts = { ...timeouts, idle: seconds }
    else if (name !== 'tls') {
      verdict = [
        'keepalive',
        'keepalive_idle_conns',
        'compression',
        'write_timeout',
        'read_buffer',
        'write_buffer'
      ].includes(name)
        ? close('connections to upstreams are kept as the options of Sluice say')
        : notHere('it has no counterpart', 'see tls and timeouts in docs/upstreams.md')
    }
    ledger.judge(at, verdict)
  }
  return { tls, timeouts, h2c }
}
