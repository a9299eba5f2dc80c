import type { SourcePosition } from '../model.js'
import { type Fields, fieldsOf, textOf } from '../values.js'
import type { PlacedDocument } from '../yaml-document.js'

/** Names that are no part of an object when labels set them. */
const FORBIDDEN = ['__proto__', 'constructor', 'prototype']
const MAX_PARTS = 20

/** A compose file as dynamic configuration: labels `traefik.http.…` of its services, whose servers have the names of the services. */
export function readLabels(document: PlacedDocument): PlacedDocument | undefined {
  const services = Object.entries(fieldsOf(document.data.services))
  if (services.length === 0) return undefined
  const root: Record<string, unknown> = {}
  const places = new Map<string, SourcePosition>()
  for (const [service, value] of services) {
    const labels = labelsOf(fieldsOf(value).labels)
    if (
      !labels.some(([name]) => name.startsWith('traefik.')) ||
      labels.some(([name, text]) => name === 'traefik.enable' && text === 'false')
    )
      continue
    const at = document.positionOf(['services', service, 'labels'])
    for (const [index, [name, text]] of labels.entries()) {
      const parts = name.split('.').slice(1)
      if (
        !/^traefik\.(?:http|tcp|udp)\./i.test(name) ||
        parts.length > MAX_PARTS ||
        parts.some((part) => FORBIDDEN.includes(part))
      )
        continue
      const own = document.positionOf(['services', service, 'labels', name])
      const place =
        own.line === 1 ? { ...at, line: at.line + (Array.isArray(fieldsOf(value).labels) ? index + 1 : 0) } : own
      setAt(root, parts, text)
      for (let length = 3; length <= parts.length; length++) {
        const key = JSON.stringify(parts.slice(0, length))
        if (!places.has(key)) places.set(key, place)
      }
    }
    addServers(root, service, fieldsOf(value), labels)
  }
  const start = document.positionOf(['services'])
  return { data: root, positionOf: (path) => places.get(JSON.stringify(path.map(String))) ?? start }
}

/** `services: { a: { loadbalancer: { server: { port } } } }` of a container means one server: the container. */
function addServers(
  root: Record<string, unknown>,
  service: string,
  compose: Fields,
  labels: readonly (readonly [string, string])[]
): void {
  const http = fieldsOf(root.http)
  const named = new Set(labels.flatMap(([name]) => /^traefik\.http\.services\.([^.]+)\./i.exec(name)?.[1] ?? []))
  if (named.size === 0) named.add(service)
  const [exposed] = [compose.expose, compose.ports].flatMap((list) =>
    Array.isArray(list) ? list.map((port) => textOf(port)?.split(':').at(-1) ?? '') : []
  )
  for (const name of named) {
    const balancer = fieldsOf(fieldsOf(fieldsOf(http.services)[name]).loadbalancer)
    const server = fieldsOf(balancer.server)
    const port = textOf(server.port) ?? exposed ?? '80'
    setAt(
      root,
      ['http', 'services', name, 'loadbalancer', 'servers'],
      [{ url: `${textOf(server.scheme) ?? 'http'}://${service}:${port}` }]
    )
  }
  // A router without a service is for the only one of its container.
  const [only] = named
  for (const router of new Set(
    labels.flatMap(([name]) => /^traefik\.http\.routers\.([^.]+)\./i.exec(name)?.[1] ?? [])
  )) {
    if (fieldsOf(fieldsOf(http.routers)[router]).service === undefined && only !== undefined)
      setAt(root, ['http', 'routers', router, 'service'], only)
  }
}

function labelsOf(value: unknown): (readonly [string, string])[] {
  if (Array.isArray(value))
    return value
      .map((item) => (textOf(item) ?? '').split(/=(.*)/s))
      .map(([name = '', text = '']) => [name, text] as const)
  return Object.entries(fieldsOf(value)).map(([name, text]) => [name, textOf(text) ?? ''] as const)
}

function setAt(root: Record<string, unknown>, parts: readonly string[], value: unknown): void {
  let node = root
  for (const part of parts.slice(0, -1)) {
    const next = node[part]
    if (typeof next !== 'object' || next === null || Array.isArray(next)) node[part] = {}
    node = node[part] as Record<string, unknown>
  }
  node[parts.at(-1) as string] = value
}
