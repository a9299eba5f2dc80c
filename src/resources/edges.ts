import Type from 'typebox'
import { moduleFields, moduleRules } from '../features/registry.js'
import { siteNameOf } from '../runtime/names.js'
import { type EdgeTls, type Hsts, policyKey } from '../runtime/plan.js'
import { choice, computed, constant, described, flag, integer, text } from '../schema/fields.js'
import { FORMS } from '../schema/formats.js'
import { responseSchema } from '../schema/json-schema.js'
import { module, type RuleView } from '../schema/objects.js'
import { parent, writtenById } from '../schema/references.js'
import { minTlsVersion } from '../schema/tls-version.js'
import { HTTP_BACKENDS, TCP_BACKENDS } from './backends.js'
import { backendModule, checkTcpHosts, hostportsField, mutualTls, plannedModules, policyTests } from './edge-parts.js'
import { present } from './present.js'
import { defineResource, type RecordOf } from './resource.js'
import { authorityKey, edgeKey, ownName, planned, routeKey, splitHostport, tcpEdgeKey } from './units.js'

/** Identity of the HTTPS edge for its routes; the edge itself is defined below them. */
const HTTPS_EDGE = { name: 'https_edge', path: '/edges/https', idPrefix: 'edghts' } as const

/** One year in seconds. */
const YEAR = 365 * 86_400

/**
 * Returns the path of a route for comparison from its normalized form: a prefix ends at a segment boundary, so a trailing slash makes no
 * difference.
 */
function comparedPath(matchType: string, path: string): string {
  return matchType === 'path_prefix' && path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
}

/** Trailing star, the prefix syntax of other programs. */
export const PREFIX_STAR = /\/\*{1,2}$/

/** Removes the star of a prefix: `/admin/*` and `/admin/**` become `/admin/`. */
const withoutStar = (path: string) => path.replace(PREFIX_STAR, '/')

/** Placeholders and alternatives of other routers in a normalized path: `{id}`, `<id>`, `:id`, `(en|de)`. */
const FOREIGN_PATTERN = /%7B[^/]*%7D|%3C[^/]*%3E|(?<=\/):[A-Za-z_]\w*(?=\/|$)|\([^/)]*%7C[^/)]*\)/

/** Stores the compared path as `match`, and rejects patterns of other routers, which would match only as literal text. */
function readMatch({ body, given, report }: RuleView): void {
  if (!given.has('match') && !given.has('match_type')) return
  const [type, match] = [String(body.match_type), String(body.match)]
  const path = withoutStar(match)
  if (path !== match && type === 'exact_path') {
    report('match', 'FIELD_INVALID', `stands for all paths below ${path}; write it with match_type path_prefix`)
    return
  }
  if (path.includes('*')) {
    const above = path.slice(0, path.slice(0, path.indexOf('*')).lastIndexOf('/') + 1)
    const message = `may have "*" only as "/*" or "/**" at its end; write "${above}" and let a policy there compare req.url.path`
    report('match', 'FIELD_INVALID', message)
    return
  }
  const foreign = FOREIGN_PATTERN.exec(path)
  if (foreign !== null) {
    const above = path.slice(0, path.lastIndexOf('/', foreign.index) + 1)
    const message = `has ${foreign[0].replace(/%(?:7[BCD]|3[CE])/g, decodeURIComponent)}, which would be literal text; write "${above}" and let a policy there compare req.url.path`
    report('match', 'FIELD_INVALID', message)
    return
  }
  body.match = comparedPath(type, path)
}

/** Handling of the requests of an HTTPS edge whose path matches. */
export const httpsEdgeRoute = defineResource({
  name: 'https_edge_route',
  description: 'What happens to the requests of an HTTPS edge whose path matches.',
  path: '/edges/https/{edge_id}/routes',
  listKey: 'routes',
  idPrefix: 'edghtsrt',
  operations: ['create', 'get', 'update', 'delete'],
  events: 'edge_https_route',
  rules: [{ on: ['match_type', 'match'], check: readMatch }, ...moduleRules('https')],
  fields: {
    edge_id: parent(HTTPS_EDGE, 'Id of its edge.'),
    match_type: choice(['exact_path', 'path_prefix'], {
      description: 'How match is compared.',
      default: 'path_prefix'
    }),
    match: text({
      description:
        'The path, or its beginning; kept in the normal form of paths, a prefix without a slash or star at its end: /admin/, /admin/* and ' +
        '/admin/** are one prefix.',
      form: 'path',
      bytes: 1024,
      required: true,
      unique: 'https_edge_route_match',
      within: ['edge_id', 'match_type']
    }),
    ...described,
    owner_id: writtenById('The user or bot who made it; members see secrets of their own routes alone.', false),
    backend: backendModule(HTTP_BACKENDS),
    ...moduleFields('https'),
    policy_tests: policyTests,
    policy: constant(null, 'policy, the predecessor of traffic_policy, is not supported; always null.')
  }
})

/** Edge for HTTPS traffic. Its routes are separate resources. */
export const httpsEdge = defineResource({
  ...HTTPS_EDGE,
  description: 'An entry for HTTPS traffic by host and port. Its routes say what happens to requests.',
  listKey: 'https_edges',
  events: 'edge_https',
  fields: {
    ...described,
    hostports: hostportsField(
      'host:port pairs that it serves. An extension of Sluice: the host may be *, for each host that no other edge has, or have one label that is a star (api.*.example.com).'
    ),
    mutual_tls: mutualTls(),
    tls_termination: module('How TLS ends here.', {
      terminate_at: constant('edge', 'Where TLS ends; always edge.'),
      min_version: minTlsVersion()
    }),
    on_http: choice(['option', 'serve', 'redirect', 'refuse'], {
      description:
        'An extension of Sluice: what clients without TLS get. serve: the same as with it. redirect: 308 to https, where there is ' +
        'a listener with TLS and a certificate for the name. refuse: 403. option: as edges_on_http of the process says.',
      default: 'option'
    }),
    hsts: module(
      'An extension of Sluice: what browsers remember of its hosts (Strict-Transport-Security, RFC 6797), in answers over TLS.',
      {
        max_age: integer({
          description: 'Seconds that browsers reach the hosts by https alone; 0: they forget it.',
          min: 0,
          max: 10 * YEAR,
          default: YEAR,
          unit: 'seconds'
        }),
        include_subdomains: flag({ description: 'Whether that holds for all names below as well.', default: false }),
        preload: flag({
          description: 'Whether browsers may come with that knowledge. Needs include_subdomains and a year or more.',
          default: false
        })
      },
      [{ on: ['max_age', 'include_subdomains', 'preload'], check: preloadable }]
    ),
    path_form: choice(['listener', 'strict', 'lenient', 'exact'], {
      description:
        'An extension of Sluice: the normal form of paths. strict merges repeated slashes and refuses encoded slashes, backslashes, ' +
        'encoded control characters and dot segments with parameters; lenient lets them pass; exact: lenient for routes and policies, while the upstream gets path and query byte for byte; listener: as the listener says.',
      default: 'listener'
    }),
    routes: computed(
      Type.Array(responseSchema(httpsEdgeRoute)),
      'Its routes, oldest first.',
      (_stored, _path, { id }, context) =>
        context.children(httpsEdgeRoute.name, id).map((route) => present(httpsEdgeRoute, route, context))
    )
  }
})

/** Checks the conditions of the browsers' preload lists (hstspreload.org). */
function preloadable({ body, report }: RuleView): void {
  if (body.preload !== true || (body.include_subdomains === true && (body.max_age as number) >= YEAR)) return
  report('preload', 'FIELD_INVALID', `needs include_subdomains and a max_age of ${YEAR} or more`)
}

/** Value of `tls` for an edge that receives its connections from TLS listeners. */
export const PASSTHROUGH = 'passthrough'

/** Edge for TCP traffic. */
export const tcpEdge = defineResource({
  name: 'tcp_edge',
  description:
    'An entry for TCP traffic. Each of its ports is opened, but for one that takes connections of TLS listeners.',
  path: '/edges/tcp',
  listKey: 'tcp_edges',
  idPrefix: 'edgtcp',
  events: 'edge_tcp',
  rules: [
    { on: ['hostports', 'tls'], check: (view) => checkTcpHosts(view, view.body.tls === PASSTHROUGH) },
    ...moduleRules('tcp')
  ],
  fields: {
    ...described,
    hostports: hostportsField(
      'host:port pairs that it serves. With tls: passthrough they are chosen as those of HTTPS edges are, and may have a star.'
    ),
    tls: choice(['off', PASSTHROUGH], {
      description:
        'An extension of Sluice. passthrough: no port is opened; a TLS listener that gets a ClientHello with one of these hosts passes the ' +
        'connection to the backend as it comes, and the server there ends TLS with its own certificate.',
      default: 'off'
    }),
    backend: backendModule(TCP_BACKENDS),
    ...moduleFields('tcp'),
    policy_tests: policyTests,
    policy: constant(null, 'Predecessor of traffic_policy; always null.')
  }
})

type TlsVersion = NonNullable<EdgeTls['minVersion']>

/** Units of HTTPS edges. */
export const httpsEdges = planned(
  httpsEdge,
  (id) => [edgeKey(id)],
  (one) => {
    const { record } = one
    const tls = edgeTls(record.body)
    const hosts = record.body.hostports.map(splitHostport)
    const { path_form: pathForm, on_http: onHttp } = record.body
    const hsts = edgeHsts(record.body)
    const asked = {
      ...(onHttp === 'serve' || onHttp === 'redirect' || onHttp === 'refuse' ? { onHttp } : {}),
      ...(hsts === undefined ? {} : { hsts }),
      ...(tls === undefined ? {} : { tls }),
      ...(pathForm === 'strict' || pathForm === 'lenient' || pathForm === 'exact' ? { pathForm } : {})
    }
    return [[edgeKey(record.id), { kind: 'edge', id: record.id, hosts, ...asked, ...ownName(one) }]]
  }
)

function edgeTls({ mutual_tls, tls_termination }: RecordOf<typeof httpsEdge>['body']): EdgeTls | undefined {
  const asks = mutual_tls?.enabled === true
  const ends = tls_termination?.enabled === true
  if (!asks && !ends) return undefined
  return {
    ...(ends ? { minVersion: tls_termination.min_version as TlsVersion } : {}),
    ...(asks ? { authorities: mutual_tls.certificate_authorities.map(authorityKey) } : {})
  }
}

function edgeHsts({ hsts }: RecordOf<typeof httpsEdge>['body']): Hsts | undefined {
  // Records of older versions have none.
  if (hsts?.enabled !== true) return undefined
  return { maxAge: hsts.max_age, includeSubdomains: hsts.include_subdomains, preload: hsts.preload }
}

/** Units of routes, with their modules and policies. */
export const httpsRoutes = planned(
  httpsEdgeRoute,
  (id) => [routeKey(id), policyKey(id)],
  (one) => {
    const { id, body } = one.record
    const { modules, upstream, units } = plannedModules(httpsEdgeRoute, one, {})
    const match = body.match_type === 'exact_path' ? 'exact' : 'prefix'
    // Records of older versions hold the path as written.
    const read = FORMS.path(body.match)
    const formed = read.ok ? read.text : body.match
    const path = match === 'exact' ? formed : comparedPath(body.match_type, withoutStar(formed))
    const place = { edge: body.edge_id, match, path } as const
    return [...units, [routeKey(id), { kind: 'route', id, ...place, ...upstream, modules, ...ownName(one) }]]
  }
)

/** Units of TCP edges, with their modules and policies. */
export const tcpEdges = planned(
  tcpEdge,
  (id) => [tcpEdgeKey(id), edgeKey(id), policyKey(id)],
  (one) => {
    const { id, body } = one.record
    const { modules, upstream, units } = plannedModules(tcpEdge, one, { carrier: 'tcp' })
    const hosts = body.hostports.map(splitHostport)
    const isPassed = body.tls === PASSTHROUGH
    // The unit of a passed-through edge has no ports to be named by.
    const own = isPassed ? { name: siteNameOf(hosts, ownName(one).name) } : ownName(one)
    return [
      ...units,
      [tcpEdgeKey(id), { kind: 'tcp_edge', id, ports: isPassed ? [] : hosts, ...upstream, modules, ...own }],
      ...(isPassed ? ([[edgeKey(id), { kind: 'edge', id, hosts, passthrough: true }]] as const) : [])
    ]
  }
)
