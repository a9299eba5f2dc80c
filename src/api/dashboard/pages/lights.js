/** Lights: whether servers, certificates and the process are well, for the start page and for the titles of all pages. */

import { call, Store } from './api.js'
import { alarm, countText } from './ui.js'

const DAY = 86_400_000
/** A certificate that ends sooner needs attention. Days. */
const SOON = 21

/**
 * One light. `tone`: good, warn or bad; `alarm`: what the title of a page says, empty where all is well.
 * @typedef {{ name: string, tone: 'good' | 'warn' | 'bad', text: string, alarm: string, place: string }} Light
 */

/** Lights of the process; undefined until the first answer of the API. @type {Store<readonly Light[] | undefined>} */
export const lights = new Store(/** @type {readonly Light[] | undefined} */ (undefined))

/** Looks again at what the lights show. Leaves them as they are where the process does not answer. */
export async function updateLights() {
  const [map, ready] = await Promise.all([call('GET', '/map'), readiness()])
  const all = [processLight(ready), serverLight(map), certificateLight(map)]
  lights.set(all)
  alarm.set(all.find((light) => light.alarm !== '')?.alarm ?? '')
  return map
}

/** The body of `GET /readyz`, which a process that is not ready answers with an error status. */
export async function readiness() {
  try {
    return await call('GET', '/readyz')
  } catch (error) {
    const { body } = /** @type {import('./api.js').ApiProblem} */ (error)
    if (body?.status !== undefined) return body
    throw error
  }
}

/** @param {any} ready @returns {Light} */
function processLight({ status, reasons = [] }) {
  const isReady = status === 'ready'
  const text = reasons.length === 0 ? status : `${status}: ${reasons.join(', ')}`
  return { name: 'Process', tone: isReady ? 'good' : 'bad', text, alarm: isReady ? '' : status, place: 'processes' }
}

/** @param {any} map @returns {Light} */
function serverLight(map) {
  /** @type {Map<string, string>} */
  const states = new Map()
  const look = (/** @type {any} */ backend) => {
    if (backend === null) return
    for (const { server, status } of backend.servers) states.set(`${backend.id} ${server}`, status)
    for (const member of backend.members) look(member.backend)
  }
  for (const { routes } of map.edges) for (const { backend } of routes) look(backend)
  for (const { backend } of map.tcp_edges) look(backend)
  const all = [...states.values()]
  const down = all.filter((status) => status === 'down').length
  const up = all.filter((status) => status === 'up').length
  const text = [
    up > 0 ? `${up} up` : '',
    down > 0 ? `${down} down` : '',
    all.length - up - down > 0 ? `${all.length - up - down} unchecked` : ''
  ].filter((part) => part !== '')
  return {
    name: 'Servers',
    tone: down > 0 ? 'bad' : 'good',
    text: text.join(', ') || 'none',
    alarm: down > 0 ? `${countText(down, 'server')} down` : '',
    place: 'routes'
  }
}

/** @param {any} map @returns {Light} */
function certificateLight(map) {
  /** @type {Map<string, number>} */
  const ends = new Map()
  for (const { hosts } of map.edges)
    for (const { certificate } of hosts)
      if (certificate !== null) ends.set(certificate.id, Date.parse(certificate.not_after))
  const days = [...ends.values()].map((end) => (end - Date.now()) / DAY)
  const ended = days.filter((left) => left < 0).length
  const soon = days.filter((left) => left >= 0 && left < SOON).length
  const least = Math.floor(Math.min(...days))
  const text =
    ended > 0
      ? `${ended} of ${countText(days.length, 'certificate')} ended`
      : days.length === 0
        ? 'none'
        : `${countText(days.length, 'certificate')}, the first ends in ${countText(least, 'day')}`
  const alarm =
    ended > 0
      ? `${countText(ended, 'certificate')} ended`
      : soon > 0
        ? `${countText(soon, 'certificate')} to renew`
        : ''
  return {
    name: 'Certificates',
    tone: ended > 0 ? 'bad' : soon > 0 ? 'warn' : 'good',
    text,
    alarm,
    place: 'certificates'
  }
}
