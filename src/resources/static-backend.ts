import { X509Certificate } from 'node:crypto'
import Type from 'typebox'
import { parseAuthority } from '../lib/host.js'
import type { AddressUpstream, CertificatePin, RetryCondition, StatusRange } from '../runtime/plan.js'
import { choice, computed, described, flag, integer, number, text, texts } from '../schema/fields.js'
import { object, type RuleView } from '../schema/objects.js'
import { ref } from '../schema/references.js'
import { tlsCertificate } from './certificates.js'
import { defineResource, type RecordOf } from './resource.js'
import { certificateKey, planned, splitHostport, upstreamKey } from './units.js'

const HOUR = 3600
const seconds = (description: string, bounds: { min: number; max: number; default: number }) =>
  number({ description: `${description} Seconds.`, ...bounds })

/** Statuses, and ranges of them such as `200-399`. */
const statuses = (description: string) =>
  texts({ description, item: 'A status or a range of them.', max: 20, bytes: 7 })

const TLS = {
  enabled: flag({ description: 'Connect with TLS?', default: false }),
  server_name: text({
    description: 'Name that is sent and must stand in the certificate; empty: the host.',
    bytes: 253
  }),
  ca_pem: text({
    description: 'Certificates of the authorities to trust instead of the known ones, in PEM; empty: the known ones.',
    bytes: 256 * 1024
  }),
  min_version: choice(['1.2', '1.3'], { description: 'Lowest version of TLS.', default: '1.2' }),
  pins: texts({
    description:
      'Certificates that it may show, by their SHA-256: certificate: and 64 hexadecimal digits for all of it, public-key: and them, or base64, for its public key. ' +
      'Without ca_pem a pin takes the place of an authority, and of the name unless server_name is set; none: any that an authority vouches for.',
    item: 'A pin.',
    max: 20,
    bytes: 128
  }),
  client_certificate: ref(tlsCertificate, {
    description: 'Certificate that is shown to it when it asks for one; null: none.'
  })
}

const HEALTH = {
  type: choice(['http', 'tcp', 'grpc'], {
    description:
      'http: a GET must be answered with one of the statuses; tcp: a connection is enough; grpc: grpc.health.v1.Health must answer SERVING.',
    default: 'http'
  }),
  service: text({
    description: 'Service of gRPC that is asked for; empty: the server as a whole.',
    bytes: 255,
    examples: ['shop.v1.Orders']
  }),
  path: text({
    description: 'Path of the GET, with a query if need be; empty: /.',
    bytes: 2048,
    examples: ['/healthz']
  }),
  host: text({ description: 'Host of the GET; empty: the address.', bytes: 255 }),
  interval: seconds('From one check to the next.', { min: 0.1, max: HOUR, default: 10 }),
  timeout: seconds('How long a check may take.', { min: 0.05, max: 300, default: 5 }),
  statuses: statuses('Statuses that say that it works, such as 204 or 200-299; none: 200-399.'),
  rise: integer({
    description: 'Checks in a row that must pass until a server that is down is up.',
    min: 1,
    max: 100,
    default: 2
  }),
  fall: integer({
    description: 'Checks in a row that must fail until a server that is up is down.',
    min: 1,
    max: 100,
    default: 3
  })
}

const PASSIVE_HEALTH = {
  failures: integer({
    description:
      'Failures in a row, time-outs included, until it is taken for down. One that is not reached is down at once.',
    min: 1,
    max: 1000,
    default: 3
  }),
  statuses: statuses(
    'Statuses that are failures, too, such as 503 or 500-599; another server is then asked where that is safe.'
  )
}

const TIMEOUTS = {
  connect: seconds('Until there is a connection; 0: as the options say.', { min: 0, max: HOUR, default: 0 }),
  response: seconds('From the request to the head of the answer; 0: as the options say.', {
    min: 0,
    max: HOUR,
    default: 0
  }),
  idle: seconds('Without a byte either way; 0: as the options say.', { min: 0, max: 24 * HOUR, default: 0 })
}

const RETRY_CONDITIONS: readonly RetryCondition[] = ['connect', 'refused_stream', 'closed', 'timeout']

const RETRIES = {
  attempts: integer({
    description: 'Tries of one request, the first one and all servers included; 1: nothing is sent again.',
    min: 1,
    max: 10,
    default: 3
  }),
  on: texts({
    description:
      'Why it is sent again: connect (no connection), refused_stream (the server says that it did not process it), closed (a reused connection ended without an answer), timeout (no answer in time), a status or a range of them such as 502-504; none: connect, refused_stream and closed.',
    item: 'A reason, a status, or a range of statuses.',
    max: 20,
    bytes: 14
  }),
  methods: choice(['safe', 'idempotent'], {
    description:
      'Methods of a request that the server may have processed: safe: GET, HEAD and OPTIONS; idempotent: PUT and DELETE, too.',
    default: 'idempotent'
  }),
  per_second: integer({
    description: 'Most retries in a second, all requests to the backend together; 0: no bound.',
    min: 0,
    max: 1_000_000,
    default: 0
  }),
  share: integer({
    description:
      'Retries as a percentage of the requests to the backend, beside ten that it always has in reserve; 0: no bound.',
    min: 0,
    max: 100,
    default: 20
  })
}

const KNOWLEDGE = 'What the process that answers knows of the server.'
const OF_SERVER = 'up, down, or unchecked while nothing says either.'
const seen = (status: string) => ({
  status: Type.String({ description: status }),
  reason: Type.String({ description: 'What was seen last.' }),
  since: Type.Union([Type.String(), Type.Null()], { description: 'Since when (RFC 3339).' })
})
/** What is known of a server or a tunnel. */
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

/** An address that is always there. */
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
        'host:port of the upstream; each address of a name is a server. Or a service of the DNS such as _http._tcp.web.internal, whose records SRV name the servers.',
      form: 'upstream_address',
      bytes: 300,
      required: true,
      examples: ['127.0.0.1:3000']
    }),
    tls: object(TLS, {
      description: 'TLS to the upstream; null: none.',
      rules: [
        { on: ['ca_pem'], check: authoritiesRead },
        { on: ['pins'], check: pinsRead }
      ]
    }),
    http2: flag({
      description: 'Speak HTTP/2, as gRPC needs it: chosen by ALPN with TLS, in clear text without it. Off: HTTP/1.1.',
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
    timeouts: object(TIMEOUTS, { description: 'Time-outs of its own; null: those of the options.' }),
    state: computed(stateSchema, KNOWLEDGE, (_stored, _path, { id }, { healthOf }) => healthOf?.(id) ?? UNCHECKED)
  },
  rules: [{ on: ['health', 'http2'], check: grpcNeedsHttp2 }]
})

function grpcNeedsHttp2({ body, report }: RuleView): void {
  const health = body.health as { readonly type?: unknown } | null | undefined
  if (health?.type !== 'grpc' || body.http2 === true) return
  report('health', 'CONFLICTING_FIELDS', 'type grpc needs http2, which gRPC is spoken over')
}

/** What a check of this type does not look at is refused. */
function grpcFits({ body, report }: RuleView): void {
  const service = body.service as string
  if (!/^[\x21-\x7e]*$/.test(service)) report('service', 'FIELD_INVALID', 'must hold visible ASCII')
  if (body.type !== 'grpc') {
    if (service !== '') report('service', 'CONFLICTING_FIELDS', 'goes with type grpc alone')
    return
  }
  if (body.path !== '') report('path', 'CONFLICTING_FIELDS', 'does not go with type grpc')
  if ((body.statuses as readonly string[]).length > 0)
    report('statuses', 'CONFLICTING_FIELDS', 'does not go with type grpc')
}

function statusesRead({ body, report }: RuleView): void {
  for (const [index, one] of (body.statuses as readonly string[]).entries()) {
    if (statusRange(one) !== undefined) continue
    report('statuses', 'FIELD_INVALID', `entry ${index} is no status from 100 to 599 and no range such as 500-599`)
  }
}

function conditionsRead({ body, report }: RuleView): void {
  for (const [index, one] of (body.on as readonly string[]).entries()) {
    if (isCondition(one) || statusRange(one) !== undefined) continue
    const known = RETRY_CONDITIONS.join(', ')
    report('on', 'FIELD_INVALID', `entry ${index} is none of ${known}, no status and no range such as 502-504`)
  }
}

function isCondition(written: string): written is RetryCondition {
  return (RETRY_CONDITIONS as readonly string[]).includes(written)
}

/** `503` or `500-599`; undefined for anything else. */
function statusRange(written: string): StatusRange | undefined {
  const parts = /^([1-5]\d\d)(?:-([1-5]\d\d))?$/.exec(written)
  if (parts === null) return undefined
  const [from, to] = [Number(parts[1]), Number(parts[2] ?? parts[1])]
  return from <= to ? [from, to] : undefined
}

function pathFits({ body, report }: RuleView): void {
  const path = body.path as string
  if (path === '' || /^\/[\x21\x22\x24-\x7e]*$/.test(path)) return
  report('path', 'FIELD_INVALID', 'must begin with / and hold visible ASCII without #')
}

function hostFits({ body, report }: RuleView): void {
  const host = body.host as string
  if (host === '' || parseAuthority(host) !== undefined) return
  report('host', 'FIELD_INVALID', 'must be a host, with a port if need be')
}

function authoritiesRead({ body, report }: RuleView): void {
  const pem = body.ca_pem as string
  if (pem === '') return
  const certificates = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  if (certificates.length > 0 && certificates.every(isCertificate)) return
  report('ca_pem', 'FIELD_INVALID', 'must be certificates in PEM')
}

function pinsRead({ body, report }: RuleView): void {
  for (const [index, one] of (body.pins as readonly string[]).entries()) {
    if (pinOf(one) !== undefined) continue
    const message = `entry ${index} is no pin: write certificate: or public-key: and a SHA-256`
    report('pins', 'FIELD_INVALID', message)
  }
}

/** `certificate:` or `public-key:` with 64 hexadecimal digits, which may have colons, or with base64 (RFC 7469 2.1.1). */
function pinOf(written: string): CertificatePin | undefined {
  const [, of, hash = ''] = /^(certificate|public-key):(.+)$/.exec(written) ?? []
  if (of !== 'certificate' && of !== 'public-key') return undefined
  const digits = hash.replaceAll(':', '').toLowerCase()
  if (/^[0-9a-f]{64}$/.test(digits)) return { of, sha256: digits }
  return /^[0-9A-Za-z+/]{43}=$/.test(hash) ? { of, sha256: Buffer.from(hash, 'base64').toString('hex') } : undefined
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0
  } catch {
    return false
  }
}

const USUAL: readonly StatusRange[] = [[200, 399]]

export const staticBackends = planned(
  staticBackend,
  (id) => [upstreamKey(id)],
  ({ record: { id, body } }) => {
    const unit: AddressUpstream = {
      kind: 'upstream',
      form: 'address',
      protocol: body.tls?.enabled === true ? 'https' : 'http',
      ...placeOf(body),
      ...(body.http2 === true ? { http2: true } : {}),
      ...tlsOf(body),
      ...healthOf(body),
      ...retriesOf(body),
      ...timeoutsOf(body)
    }
    return [[upstreamKey(id), unit]]
  }
)

type StaticBody = RecordOf<typeof staticBackend>['body']

/** The domain of a service (RFC 2782) is what the certificate must be for: who answers for the name names the targets. */
function placeOf({ address }: StaticBody): Pick<AddressUpstream, 'host' | 'port' | 'service'> {
  if (/:\d+$/.test(address)) return splitHostport(address)
  return { host: address.split('.').slice(2).join('.'), port: 0, service: address }
}

function tlsOf({ tls }: StaticBody): Partial<AddressUpstream> {
  if (tls?.enabled !== true) return {}
  return {
    ...(tls.server_name ? { servername: tls.server_name } : {}),
    ...(tls.ca_pem ? { certificateAuthorities: tls.ca_pem } : {}),
    ...(tls.min_version === '1.3' ? { minVersion: 'TLSv1.3' } : {}),
    ...((tls.pins ?? []).length > 0 ? { pins: tls.pins.flatMap((one) => pinOf(one) ?? []) } : {}),
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

/** The rules have refused what is none. */
function ranges(written: readonly string[]): StatusRange[] {
  const read: StatusRange[] = []
  for (const one of written) {
    const range = statusRange(one)
    if (range !== undefined) read.push(range)
  }
  return read
}
