import Type from 'typebox'
import { formatAuthority } from '../lib/host.js'
import { siteNameOf } from '../runtime/names.js'
import { POLICY_ALONE, type PolicyUnit, policyKey, type Unit } from '../runtime/plan.js'
import { defineField, type Field } from '../schema/field.js'
import {
  choice,
  computed,
  constant,
  described,
  flag,
  kept,
  keptText,
  keptTextOrNull,
  text,
  texts,
  updatedAt
} from '../schema/fields.js'
import { formatEndpointUrl, parseEndpointUrl, refusalOfTcpHost } from '../schema/formats.js'
import type { RuleView } from '../schema/objects.js'
import { creator } from './identities.js'
import { liveRef } from './live.js'
import { pathOf } from './present.js'
import { defineResource } from './resource.js'
import { edgeKey, ownName, planned, routeKey, splitHostport, tcpEdgeKey } from './units.js'

/** Type of the endpoints that the API writes. */
export const CLOUD = 'cloud'

/** Maximum length of a policy document in bytes. */
const MAX_DOCUMENT = 1024 * 1024

/** Returns the members of an endpoint that say where it is. */
export function endpointAddress(proto: string, host: string, port: number) {
  return { proto, url: formatEndpointUrl({ proto, host, port }), hostport: formatAuthority(host, port), host, port }
}

/** Returns the kind of traffic that the policy of an endpoint with this URL is for. */
export function endpointLayer(url: string): 'http' | 'tcp' {
  return /^\s*(tcp|tls):/i.test(url) ? 'tcp' : 'http'
}

/** Derives the address, and checks that the endpoint can be served there. */
function readPlace({ body, given, report }: RuleView): void {
  const read = parseEndpointUrl(String(body.url))
  if (!given.has('url') && !given.has('bindings')) return
  if (!read.ok) return
  const { proto, host, port } = read
  Object.assign(body, { source: 'api', ...endpointAddress(proto, host, port) })
  const refusal = proto === 'tcp' || proto === 'tls' ? refusalOfTcpHost(`${host}:${port}`, proto === 'tls') : undefined
  if (refusal !== undefined) report('url', 'FIELD_INVALID', refusal.replace('tls: passthrough', 'http, https and tls'))
  const [binding] = body.bindings as readonly string[]
  const problem = binding === undefined ? undefined : refusalOfBinding(binding, read.internal)
  if (problem !== undefined) report('bindings', 'FIELD_INVALID', problem)
}

function refusalOfBinding(binding: string, internal: boolean): string | undefined {
  switch (binding) {
    case 'public':
      return internal ? 'cannot be public: only policies lead to a host below .internal' : undefined
    case 'internal':
      return internal ? undefined : 'can be internal only with a host below .internal'
    case 'kubernetes':
      return 'cannot be kubernetes: endpoints inside of clusters are not served'
    default:
      return 'must be public or internal'
  }
}

/** Checks the document for the traffic that the URL names. */
function readPolicy({ body, given, checkPolicy }: RuleView): void {
  if (!given.has('url') && !given.has('traffic_policy')) return
  checkPolicy('traffic_policy', String(body.traffic_policy), endpointLayer(String(body.url)))
}

/** The binding as given, otherwise that of the host. */
function bindings(): Field<readonly string[]> {
  const list = texts({
    description:
      'Who reaches it: public, or internal, for policies alone (forward-internal); then its host ends with .internal. Default: as the host says. kubernetes is refused.',
    item: 'public or internal.',
    bytes: 32,
    max: 1
  })
  return defineField<readonly string[]>({
    ...list,
    present(stored, _path, { body }) {
      if (stored.length > 0) return [...stored]
      const read = parseEndpointUrl(String(body.url))
      return [read.ok && read.internal ? 'internal' : 'public']
    }
  })
}

/** Fields that follow from the URL of an endpoint. */
const address = {
  proto: keptText('http, https, tcp or tls.'),
  scheme: computed(Type.String(), 'The same as proto.', (_stored, _path, { body }) => String(body.proto ?? '')),
  public_url: computed(Type.String(), 'The same as url.', (_stored, _path, { body }) => String(body.url ?? '')),
  hostport: {
    ...keptText('host:port of its URL.'),
    unique: {
      space: 'hostport',
      within: [],
      givenAs: 'url',
      shared: { flag: 'pooling_enabled', by: 'url' }
    }
  },
  host: keptText('Host of its URL.'),
  port: kept<number>(Type.Integer(), 0, 'Port of its URL.')
}

type Reference = ReturnType<typeof liveRef>

/** Returns a field for the reservation of the endpoints that `has` accepts: in the record of an edge's, looked up for a cloud endpoint. */
function reservation(description: string, has: (proto: unknown) => boolean): Reference {
  return {
    ...liveRef(description),
    present: (stored, _path, { id, body }, { reservationOf }) =>
      stored ?? (has(body.proto) ? reservationOf?.(id) : undefined) ?? null
  } as Reference
}

/** Cloud endpoint. The API shows those of edges and agents, and the default one of the options, beside them. */
export const endpoint = defineResource({
  name: 'endpoint',
  description:
    'A place where traffic is taken: an edge, a tunnel, the default of the options file, or a cloud endpoint, whose policy alone answers. ' +
    'Only cloud endpoints are written here.',
  path: '/endpoints',
  listKey: 'endpoints',
  idPrefix: 'ep',
  events: 'cloud_endpoint',
  rules: [
    { on: ['url', 'bindings'], check: readPlace },
    { on: ['url', 'traffic_policy'], check: readPolicy }
  ],
  fields: {
    updated_at: updatedAt(),
    ...described,
    source: keptText('Who declares it: file, api or agent.'),
    type: {
      ...choice([CLOUD], { description: 'Type of a new endpoint; always cloud.', default: CLOUD }),
      response: Type.String({ description: 'cloud, edge, ephemeral or default.' })
    } as Field<string>,
    url: text({
      description:
        'URL at which it is reached: http://, https:// or tls:// with a host and maybe a port, or tcp:// with both.',
      form: 'endpoint_url',
      bytes: 300,
      required: true,
      examples: ['https://app.example.com']
    }),
    ...address,
    region: keptText('Always empty: endpoints are global.'),
    upstream_url: keptTextOrNull('Where it forwards to, when that is one place.'),
    upstream_protocol: constant('', 'Always empty: the policy or the agent chooses it for each request.'),
    edge: liveRef('The edge that it belongs to.'),
    domain: reservation('The reserved domain that it uses.', (proto) => proto !== 'tcp'),
    tcp_addr: reservation('The reserved address that it uses.', (proto) => proto === 'tcp'),
    principal: creator('The user or bot who created it, or who owns the credential of its agent; null for an edge.'),
    name: constant('', 'Always empty: endpoints have no names besides their URLs.'),
    tunnel: liveRef('The tunnel that it belongs to.'),
    tunnel_session: liveRef('The session that it belongs to.'),
    traffic_policy: text({
      description:
        'Its policy document, YAML or JSON; empty for an edge or agent without one. What no rule of a cloud endpoint answers gets 404.',
      bytes: MAX_DOCUMENT,
      required: true
    }),
    bindings: bindings(),
    pooling_enabled: flag({
      description:
        'Whether it shares its URL with cloud endpoints and agents that agree too: each request goes to one of them, drawn at random.',
      default: false
    })
  }
})

/** Is this the id of a cloud endpoint, rather than that of a route or an edge? */
export function isCloudEndpoint(id: string): boolean {
  return id.startsWith(`${endpoint.idPrefix}_`)
}

/** Returns the path of a cloud endpoint in the API; undefined if the id is not that of one. */
export function cloudEndpointPath(id: string): string | undefined {
  return isCloudEndpoint(id) ? `${endpoint.path}/${id}` : undefined
}

/** Units of cloud endpoints: an edge that has only a policy. */
export const cloudEndpoints = planned(
  endpoint,
  (id) => [edgeKey(id), routeKey(id), tcpEdgeKey(id), policyKey(id)],
  (one) => {
    const { id, body } = one.record
    const hosts = [splitHostport(body.hostport)]
    const carried = endpointLayer(body.url) === 'tcp' ? { carrier: 'tcp' as const } : {}
    const source = pathOf(endpoint, one.record)
    const policy: PolicyUnit = { kind: 'policy', owner: id, text: body.traffic_policy, source, ...carried }
    const alone = { upstream: POLICY_ALONE, modules: { traffic_policy: { policy: policyKey(id) } } }
    const name = ownName(one)
    const pool = body.pooling_enabled === true ? { pool: 1 } : {}
    const units: [string, Unit][] = [[policyKey(id), policy]]
    if (body.proto === 'tcp')
      units.push([tcpEdgeKey(id), { kind: 'tcp_edge', id, ports: hosts, ...alone, ...name, ...pool }])
    else if (body.proto === 'tls') {
      units.push([edgeKey(id), { kind: 'edge', id, hosts, passthrough: true, ...pool }])
      units.push([tcpEdgeKey(id), { kind: 'tcp_edge', id, ports: [], ...alone, name: siteNameOf(hosts, name.name) }])
    } else {
      const plain = body.proto === 'http' ? { protocol: 'http' as const } : {}
      units.push([edgeKey(id), { kind: 'edge', id, hosts, ...plain, ...name, ...pool }])
      units.push([routeKey(id), { kind: 'route', id, edge: id, match: 'prefix', path: '/', ...alone }])
    }
    return units
  }
)
