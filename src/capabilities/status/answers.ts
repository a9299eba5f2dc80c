import { count, listOf, object, text, time, titledObject, type ValueOf, words } from '../../schema/answer.js'

/** States of a site, from the best one. */
export const STATES = ['up', 'degraded', 'down'] as const

const SITE = object({
  name: { ...text, description: 'Host name; * for hosts without a site of their own; the port of a site for TCP.' },
  status: words(STATES, 'degraded: some of its routes or servers are down.')
})

/** State of all sites. */
export const STATUS = titledObject('Status', {
  status: words(STATES, 'up: all sites are up; down: all are down.'),
  checked_at: { ...time, description: 'Time of the state, at most five seconds ago.' },
  sites: listOf(SITE, 'Sorted by name.'),
  omitted: { ...count, description: 'Sites that are left out because there are too many.' }
})

export type StatusView = ValueOf<typeof STATUS>
export type SiteView = StatusView['sites'][number]
export type State = (typeof STATES)[number]
