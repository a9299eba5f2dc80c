import Type from 'typebox'
import { type AddressUpstream, type StatusRange, upstreamKey } from '../runtime/plan.js'
import { choice, computed, described, flag, integer, text, texts } from '../schema/fields.js'
import { object } from '../schema/objects.js'
import { defineResource, type RecordOf } from './resource.js'
import {
  authoritiesRead,
  conditionsRead,
  grpcFits,
  grpcNeedsHttp2,
  HEALTH,
  hostFits,
  isCondition,
  PASSIVE_HEALTH,
  pathFits,
  pinOf,
  pinsRead,
  QUEUE,
  RETRIES,
  statusesRead,
  statusRange,
  TIMEOUTS,
  TLS,
  upgradesRead,
  verifyFits
} from './static-backend-fields.js'
import { certificateKey, namedBackend, planned, splitHostport } from './units.js'

const KNOWLEDGE = 'What the process that answers knows of the server.'
const OF_SERVER = 'up, down, or unchecked while nothing says either.'
const seen = (status: string) => ({
  status: Type.String({ description: status }),
  reason: Type.String({ description: 'What was seen last.' }),
  since: Type.Union([Type.String(), Type.Null()], { description: 'Since when (RFC 3339).' })
})
/** State of a server or tunnel. */
export const stateFields = seen(OF_SERVER)
const stateSchema = Type.Object(
  {
    ...stateFields,
    servers: Type.Array(
      Type.Object(
        { server: Type.String({ description: 'Its URL and its address.' }), ...stateFields },
        { description: 'One address.' }
      ),
      { description: 'Where the address is a name: each address that it has.' }
    ),
    name: Type.Union(
      [
        Type.Object(
          seen('unknown until the first answer, resolved, stale while the last addresses stand in, or unresolved.')
        ),
        Type.Null()
      ],
      { description: 'Where the address is a name: does it resolve? null: it is none.' }
    )
  },
  { description: KNOWLEDGE }
)
const UNCHECKED = { status: 'unchecked', reason: '', since: null, servers: [], name: null }

/** Backend with a fixed address. */
export const staticBackend = defineResource({
  name: 'static_backend',
  description: 'One upstream at a fixed address.',
  path: '/backends/static',
  listKey: 'backends',
  idPrefix: 'bkdsc',
  events: 'backend',
  fields: {
    ...described,
    address: text({
      description:
        'host:port of the upstream; each address of a name is a server. Or a service of the DNS such as _http._tcp.web.internal, whose records SRV name the servers. ' +
        'Or a Unix domain socket such as unix:/run/app.sock, which only an administrator may write.',
      form: 'upstream_address',
      bytes: 300,
      required: true,
      examples: ['127.0.0.1:3000']
    }),
    tls: object(TLS, {
      description: 'TLS to the upstream; null: none.',
      rules: [
        { on: ['ca_pem'], check: authoritiesRead },
        { on: ['pins'], check: pinsRead },
        { on: ['verify', 'ca_pem', 'pins'], check: verifyFits }
      ]
    }),
    path: text({
      description: 'Path that is put before that of each request: with /base, /x is asked for as /base/x; empty: none.',
      form: 'path_prefix',
      bytes: 1024,
      examples: ['/base']
    }),
    proxy_protocol: choice(['off', 'v1', 'v2'], {
      description:
        'Header of the PROXY protocol with the address of the client, which begins each connection; connections then carry one request each.',
      default: 'off'
    }),
    http2: flag({
      description: 'Speak HTTP/2, as gRPC needs it: chosen by ALPN with TLS, in clear text without it. Off: HTTP/1.1.',
      default: false
    }),
    lenient: flag({
      description:
        'Take answers of HTTP/1.1 that break its grammar and cannot be read as other messages: lines that end with LF alone, control characters and folded lines in fields, equal lengths, padded chunk sizes. For old upstreams; a log line says so at each start.',
      default: false
    }),
    health: object(HEALTH, {
      description: 'Checks that find out whether it works; null: traffic alone tells.',
      rules: [
        { on: ['statuses'], check: statusesRead },
        { on: ['path'], check: pathFits },
        { on: ['host'], check: hostFits },
        { on: ['type', 'service', 'path', 'statuses'], check: grpcFits }
      ]
    }),
    passive_health: object(PASSIVE_HEALTH, {
      description: 'What traffic tells of it; null: three failures in a row make it down, and no status is one.',
      rules: [{ on: ['statuses'], check: statusesRead }]
    }),
    retries: object(RETRIES, {
      description:
        'When a request is sent again, to another server if there is one; null: three tries on connect, refused_stream and closed, without a bound.',
      rules: [{ on: ['on'], check: conditionsRead }]
    }),
    max_connections: integer({
      description:
        'Most requests and connections that each of its servers carries at a time, in this process; further ones wait in the queue. 0: no bound.',
      min: 0,
      max: 1_000_000,
      default: 0
    }),
    queue: object(QUEUE, {
      description: 'Who waits for a server that carries max_connections; null: 100, for 10 seconds.'
    }),
    upgrades: texts({
      description:
        'Protocols beside WebSocket that clients may switch to by the field Upgrade, such as tcp for docker exec and spdy/3.1 for kubectl. Bytes then pass unseen by policies.',
      item: 'A protocol, with its version if it has one.',
      max: 20,
      bytes: 64
    }),
    timeouts: object(TIMEOUTS, { description: 'Time-outs of its own; null: those of the options.' }),
    state: computed(stateSchema, KNOWLEDGE, (_stored, _path, { id }, { healthOf }) => healthOf?.(id) ?? UNCHECKED)
  },
  rules: [
    { on: ['health', 'http2'], check: grpcNeedsHttp2 },
    { on: ['upgrades'], check: upgradesRead }
  ]
})

const USUAL: readonly StatusRange[] = [[200, 399]]

/** Units of static backends. */
export const staticBackends = planned(
  staticBackend,
  (id) => [upstreamKey(id)],
  (one) => {
    const { id, body } = one.record
    const unit: AddressUpstream = {
      kind: 'upstream',
      form: 'address',
      protocol: body.tls?.enabled === true ? 'https' : 'http',
      ...placeOf(body),
      ...(body.http2 === true ? { http2: true } : {}),
      ...wayOf(body),
      ...placesOf(body),
      ...tlsOf(body),
      ...healthOf(body),
      ...retriesOf(body),
      ...timeoutsOf(body)
    }
    return [[upstreamKey(id), namedBackend(one, unit)]]
  }
)

type StaticBody = RecordOf<typeof staticBackend>['body']

/**
 * Returns the address of a server. The certificate must be for the domain of a service (RFC 2782), because the owner of that name chooses
 * the targets.
 */
function placeOf({ address }: StaticBody): Pick<AddressUpstream, 'host' | 'port' | 'service' | 'socket'> {
  if (address.startsWith('unix:')) return { host: 'localhost', port: 0, socket: address.slice('unix:'.length) }
  if (/:\d+$/.test(address)) return splitHostport(address)
  return { host: address.split('.').slice(2).join('.'), port: 0, service: address }
}

/** Returns the connection settings; records of earlier versions have none of these fields. */
function wayOf({ path = '', proxy_protocol: proxy, lenient, upgrades = [] }: StaticBody): Partial<AddressUpstream> {
  return {
    ...(path === '' ? {} : { pathPrefix: path }),
    ...(proxy === 'v1' || proxy === 'v2' ? { proxyProtocol: proxy === 'v1' ? 1 : 2 } : {}),
    ...(lenient === true ? { lenient } : {}),
    ...(upgrades.length > 0 ? { upgrades: upgrades.map((one) => one.toLowerCase()) } : {})
  }
}

function placesOf({ max_connections: most = 0, queue }: StaticBody): Partial<AddressUpstream> {
  if (most === 0) return {}
  const { length, timeout } = queue ?? {}
  return {
    maxConnections: most,
    ...(length === undefined || timeout === undefined ? {} : { queue: { length, timeout: milliseconds(timeout) } })
  }
}

function tlsOf({ tls }: StaticBody): Partial<AddressUpstream> {
  if (tls?.enabled !== true) return {}
  return {
    ...(tls.server_name ? { servername: tls.server_name } : {}),
    ...(tls.ca_pem ? { certificateAuthorities: tls.ca_pem } : {}),
    ...(tls.min_version === '1.3' ? { minVersion: 'TLSv1.3' } : {}),
    ...((tls.pins ?? []).length > 0 ? { pins: tls.pins.flatMap((one) => pinOf(one) ?? []) } : {}),
    ...(tls.verify === 'off' ? { verify: false } : {}),
    ...(tls.client_certificate == null ? {} : { clientCertificate: certificateKey(tls.client_certificate) })
  }
}

function healthOf({ health, passive_health: passive }: StaticBody): Partial<AddressUpstream> {
  return {
    ...(health == null
      ? {}
      : {
          health: {
            type: health.type === 'tcp' || health.type === 'grpc' ? health.type : 'http',
            service: health.service,
            path: health.path === '' ? '/' : health.path,
            ...(health.host === '' ? {} : { host: health.host }),
            interval: milliseconds(health.interval),
            timeout: milliseconds(health.timeout),
            statuses: health.statuses.length === 0 ? USUAL : ranges(health.statuses),
            rise: health.rise,
            fall: health.fall
          }
        }),
    ...(passive == null ? {} : { passiveHealth: { failures: passive.failures, statuses: ranges(passive.statuses) } })
  }
}

function retriesOf({ retries }: StaticBody): Partial<AddressUpstream> {
  if (retries == null) return {}
  const { attempts, on, methods, per_second: perSecond, share } = retries
  return {
    retries: {
      attempts,
      on: on.length === 0 ? ['connect', 'refused_stream', 'closed'] : on.filter(isCondition),
      statuses: ranges(on),
      methods: methods === 'safe' ? 'safe' : 'idempotent',
      ...(perSecond > 0 ? { perSecond } : {}),
      ...(share > 0 ? { share: share / 100 } : {})
    }
  }
}

function timeoutsOf({ timeouts }: StaticBody): Partial<AddressUpstream> {
  if (timeouts == null) return {}
  const given = Object.entries(timeouts).filter(([, value]) => value > 0)
  return given.length === 0
    ? {}
    : { timeouts: Object.fromEntries(given.map(([name, value]) => [name, milliseconds(value)])) }
}

const milliseconds = (given: number) => Math.round(given * 1000)

/** Parses status ranges; the rules have already rejected invalid ones. */
function ranges(written: readonly string[]): StatusRange[] {
  const read: StatusRange[] = []
  for (const one of written) {
    const range = statusRange(one)
    if (range !== undefined) read.push(range)
  }
  return read
}
