/** The places of policies: every route, TCP edge and TLS edge of the API, and every policy that serves, wherever it is written. */

import { call } from './api.js'
import { everyOf } from './ui.js'

/**
 * A policy, or a place that can have one. `id`: of the route or TCP edge, otherwise the policy's owner; `path`: of the record; `route`: the
 * name for /explain and /shadows, undefined where they have none; `policy`: null where there is none, its `value` undefined until it is
 * loaded; `source`: the file and line, or "the API"; `fixed`: the reason why the API cannot change it.
 * @typedef {{ id: string, title: string, layer: 'http' | 'tcp', path: string, resource: string, route: string | undefined, policy: { enabled: boolean, value: string | undefined, lines: number } | null, tests: string, source: string, fixed: string | undefined, example: string }} Place
 * @typedef {import('../../../control/traffic-answers.js').TrafficMap['tcp_edges'][number]['policies'][number]} Served
 */

const API = 'the API'

/** @param {string} text */
const linesOf = (text) => text.trim().split('\n').length

/** @param {string} source */
const declaredAt = (source) => `${source} holds it, and it changes there alone.`

/**
 * Loads them all, in the order of their titles; `omitted`: the number of edges that the map leaves out.
 * @returns {Promise<{ places: Place[], omitted: number }>}
 */
export async function loadPlaces() {
  const [https, tcp, tls, map] = await Promise.all([
    everyOf('/edges/https', 'https_edges'),
    everyOf('/edges/tcp', 'tcp_edges'),
    everyOf('/edges/tls', 'tls_edges'),
    call('GET', '/map')
  ])
  /** @type {Map<string, Served>} */
  const served = new Map()
  for (const { policies } of [...map.edges.flatMap((/** @type {any} */ edge) => edge.routes), ...map.tcp_edges])
    for (const one of policies) served.set(one.owner, one)
  const records = [
    ...https.flatMap((edge) => edge.routes.map((/** @type {any} */ route) => routePlace(edge, route, served))),
    ...tcp.map((edge) => bytesPlace('tcp', edge, served)),
    ...tls.map((edge) => bytesPlace('tls', edge, served))
  ]
  const known = new Set(records.map(({ id }) => id))
  const declared = new Set(https.filter((edge) => edge.declared !== undefined).map(({ id }) => id))
  const others = map.edges.flatMap((/** @type {any} */ edge) => {
    const owners = new Set(edge.routes.flatMap((/** @type {any} */ { policies }) => policies.map(ownerOf)))
    return [...owners].flatMap((owner) => {
      const policy = served.get(owner)
      return policy === undefined || known.has(owner) ? [] : [otherPlace(edge, policy, declared.has(edge.id))]
    })
  })
  const places = [...records, ...others].sort((a, b) => a.title.localeCompare(b.title))
  return { places, omitted: map.omitted }
}

/** @param {Served} served */
const ownerOf = ({ owner }) => owner

/** @param {any} record @param {ReadonlyMap<string, Served>} served */
function written({ id, traffic_policy: policy, policy_tests: tests, declared }, served) {
  const source = declared === undefined ? API : (served.get(id)?.source ?? `${declared.file}:${declared.line}`)
  return {
    id,
    policy: policy === null ? null : { enabled: policy.enabled, value: policy.value, lines: linesOf(policy.value) },
    tests: tests ?? '',
    source,
    fixed: declared === undefined ? undefined : declaredAt(source)
  }
}

/** @param {any} edge @param {any} route @param {ReadonlyMap<string, Served>} served @returns {Place} */
function routePlace(edge, route, served) {
  const host = String(edge.hostports[0] ?? 'localhost')
  return {
    ...written(route, served),
    title: `${edge.hostports.join(', ')} ${route.match}`,
    layer: 'http',
    path: `/edges/https/${edge.id}/routes/${route.id}`,
    resource: 'https_edge_route',
    route: route.id,
    example: `http://${requestHost(host.replace(/:\d+$/, ''))}${route.match}`
  }
}

/**
 * The place of a TCP or TLS edge.
 * @param {'tcp' | 'tls'} kind
 * @param {any} edge
 * @param {ReadonlyMap<string, Served>} served
 * @returns {Place}
 */
function bytesPlace(kind, edge, served) {
  const title = edge.hostports.join(', ')
  const path = `/edges/${kind}/${edge.id}`
  const resource = `${kind}_edge`
  return { ...written(edge, served), title, layer: 'tcp', path, resource, route: undefined, example: '' }
}

/**
 * A policy that no record of the API has: of a whole site, of the options or of an agent.
 * @param {any} edge of the map
 * @param {Served} policy
 * @param {boolean} isSite
 * @returns {Place}
 */
function otherPlace(edge, { owner, source, lines }, isSite) {
  const hosts = edge.every_host ? 'Every other host' : edge.hosts.map(hostText).join(', ')
  const options = `The option policy names the file ${source}, and it changes there alone.`
  const agent = 'An agent brings it, and it changes there alone.'
  return {
    id: owner,
    title: hosts,
    layer: 'http',
    path: '',
    resource: '',
    route: owner,
    policy: { enabled: true, value: undefined, lines },
    tests: '',
    source: isSite || owner === 'default' ? source : 'an agent',
    fixed: isSite ? declaredAt(source) : owner === 'default' ? options : agent,
    example: `http://${requestHost(edge.hosts[0]?.host ?? 'localhost')}/`
  }
}

/** @param {{ host: string, port: number }} host */
const hostText = ({ host, port }) => `${host}:${port}`

/** A host that a pattern stands for. @param {string} host */
const requestHost = (host) => (host === '*' ? 'localhost' : host.replace('*', 'www'))
