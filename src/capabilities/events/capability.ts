import { defineCapability } from '../../app/capability.js'
import { EVENT_DELIVERY, EVENT_FILE_CHECK } from '../../app/ports.js'
import { onceThere } from '../../app/store-copy.js'
import { eventDestination } from '../../resources/event-destinations.js'
import { eventSubscription } from '../../resources/event-subscriptions.js'
import { DeadLetterLists } from './dead-letters.js'
import { eventFileErrors } from './destinations/local.js'
import { EVENTS, openEvents } from './open-events.js'
import { eventRoutes } from './routes.js'

/** Kinds of records that the delivery of events follows. */
const FOLLOWED = [eventDestination.name, eventSubscription.name]

/** Delivers events to their destinations, shows those that were refused, and sends test events. */
export const events = defineCapability({
  name: 'events',
  routes: eventRoutes,
  errors: { 'Requests that Sluice makes itself': [eventFileErrors] },
  stages: {
    async ruled({ options, foundation, seal, opened }) {
      const { events, folders } = await openEvents(options, foundation, seal)
      opened.put(EVENTS, events)
      opened.put(EVENT_DELIVERY, events)
      opened.put(EVENT_FILE_CHECK, (path) => folders.refusal(path))
      foundation.revisions.add({
        served: () => events.served(),
        settled: (kinds) => (FOLLOWED.some((kind) => kinds.has(kind)) ? events.followed() : undefined)
      })
    },
    // A copy of the store has no undelivered events.
    async answering({ foundation, store, opened }) {
      await onceThere(foundation, store, () => opened.get(EVENTS).start())
    }
  },
  open({ foundation: { publicUrl }, control: { reads, serviceAccount }, opened }) {
    const { store, writer } = serviceAccount
    return new DeadLetterLists({ store, writer, reads, baseUrl: publicUrl.read, delivery: opened.get(EVENTS) })
  }
})
