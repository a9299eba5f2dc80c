import { celText } from '../cel.js'
import { close, EXACT, notHere, type RouteAction, type SourcePosition, type Verdict } from '../model.js'
import { networkOf } from '../requests-in-cel.js'
import { type Fields, fieldsOf, textOf, textsOf } from '../values.js'

/** Keys of a tunnel or endpoint with their differences. */
const CLOSE: Readonly<Record<string, string>> = {
  inspect: 'the dashboard shows exchanges of all sites',
  metadata: 'it is not kept',
  description: 'it is not kept',
  circuit_breaker: 'write circuit_breaker of the site',
  host_header: 'the upstream gets the host that the client asked for',
  pooling_enabled: 'name all servers in one backend',
  proxy_proto: 'write proxy_protocol of the backend',
  websocket_tcp_converter: 'it is not done',
  bindings: 'write a name below .internal for a site of policies alone'
}

/** Keys of a tunnel that are read in their own place. */
const READ = [
  'proto',
  'addr',
  'hostname',
  'domain',
  'subdomain',
  'schemes',
  'bind_tls',
  'name',
  'url',
  'upstream',
  'remote_addr',
  'compression',
  'basic_auth',
  'auth',
  'ip_restriction',
  'request_header',
  'response_header',
  'traffic_policy',
  'policy',
  'labels',
  'traffic_policy_file',
  'crt',
  'key'
]

interface ReadKey {
  readonly added: readonly RouteAction[]
  readonly verdict: Verdict
}

/** Actions of a key of a tunnel. A check that is not converted answers 503. */
export function readKey(key: string, value: unknown, at: SourcePosition): ReadKey {
  const closed = (reason: string, instead: string): ReadKey => ({
    added: [{ kind: 'respond', status: 503, at }],
    verdict: notHere(`${reason}; the site answers 503`, instead)
  })
  if (key === 'basic_auth' || key === 'auth') {
    const credentials = textsOf(value)
    if (credentials.length === 0 || credentials.some((one) => !/^[^:]+:.{8,128}$/.test(one) || one.includes('${')))
      return closed('its passwords have not 8 to 128 characters', 'write basic-auth')
    return {
      added: [{ kind: 'native', phase: 'request', type: 'basic-auth', config: { realm: 'ngrok', credentials }, at }],
      verdict: close('passwords stand in the site file; `sluice hash-password` makes hashes')
    }
  }
  if (key === 'ip_restriction') {
    const { allow_cidrs, deny_cidrs } = fieldsOf(value)
    const [allow, deny] = [textsOf(allow_cidrs), textsOf(deny_cidrs)]
    if (allow.length + deny.length === 0 || [...allow, ...deny].some((network) => networkOf(network) === undefined))
      return closed('its networks are not known', 'write restrict-ips')
    return { added: [{ kind: 'addresses', allow, deny, at }], verdict: EXACT }
  }
  if (key === 'request_header' || key === 'response_header')
    return { added: headerActions(key === 'request_header', fieldsOf(value), at), verdict: EXACT }
  if (key === 'traffic_policy' || key === 'policy')
    return readPolicy(value, at) ?? closed('its policy is a file, or has another form', 'write policy of the site')
  if (key === 'compression')
    return value === true
      ? { added: [{ kind: 'compress', algorithms: [], at }], verdict: close('br and zstd are offered beside gzip') }
      : { added: [], verdict: EXACT }
  if (READ.includes(key) && key !== 'traffic_policy_file') return { added: [], verdict: EXACT }
  if (CLOSE[key] !== undefined) return { added: [], verdict: close(CLOSE[key]) }
  return closed(
    `${celText(key)} has no counterpart here, or decides who may pass`,
    'write an action of a policy (docs/reference/actions.md)'
  )
}

function headerActions(isRequest: boolean, { add, remove }: Fields, at: SourcePosition): RouteAction[] {
  const removed = textsOf(remove).map((name) => name.toLowerCase())
  const added = textsOf(add).map((field) => field.split(/:\s*(.*)/s))
  const of = (name: string, value: string, mode: 'add' | 'set'): RouteAction =>
    isRequest ? { kind: 'request-header', name, value, at } : { kind: 'response-header', name, value, mode, at }
  return [
    ...removed.map((name) => of(name, '', 'set')),
    ...added.map(([name = '', value = '']) => of(name.toLowerCase(), value, 'add'))
  ]
}

/** Rules of a traffic policy on the spot; their language is that of Sluice. */
function readPolicy(value: unknown, at: SourcePosition): ReadKey | undefined {
  const policy = fieldsOf(value)
  if (
    Object.keys(policy).length === 0 ||
    Object.keys(policy).some((key) => !['on_http_request', 'on_http_response'].includes(key))
  )
    return undefined
  const added: RouteAction[] = []
  for (const phase of ['request', 'response'] as const) {
    const rules = policy[`on_http_${phase}`]
    if (rules !== undefined && !Array.isArray(rules)) return undefined
    for (const rule of rules ?? []) {
      const { expressions, actions } = fieldsOf(rule)
      if (!Array.isArray(actions) || (expressions !== undefined && !Array.isArray(expressions))) return undefined
      const when = textsOf(expressions)
        .map((cel) => `(${cel})`)
        .join(' && ')
      for (const action of actions) {
        const { type, config } = fieldsOf(action)
        if (textOf(type) === undefined) return undefined
        added.push({
          kind: 'native',
          phase,
          type: String(type),
          config: fieldsOf(config),
          at,
          ...(when === '' ? {} : { when })
        })
      }
    }
  }
  return { added, verdict: close('`sluice check` says what differs, action by action') }
}

/** URL of an address such as `3000`, `localhost:3000` or `https://a:8443`; undefined for folders. */
export function serverUrl(address: string, usual: string): string | undefined {
  if (/^\d+$/.test(address)) return `${usual}://localhost:${address}`
  const [, scheme = usual, authority = ''] = /^(?:(https?|tcp|h2c):\/\/)?([^/]+)\/?$/.exec(address) ?? []
  if (authority === '') return undefined
  if (/^\d+$/.test(authority)) return `${scheme}://localhost:${authority}`
  if (/:\d+$/.test(authority)) return `${scheme}://${authority}`
  return scheme === 'tcp' ? undefined : `${scheme}://${authority}:${scheme === 'https' ? 443 : 80}`
}
