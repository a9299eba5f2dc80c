import { defineCapability } from '../../app/capability.js'
import { DeadLetterLists } from './dead-letters.js'
import { eventFileErrors } from './destinations/local.js'
import { EVENTS } from './open-events.js'
import { eventRoutes } from './routes.js'

/** Shows events that their destinations refused, and sends test events. */
export const events = defineCapability({
  name: 'events',
  routes: eventRoutes,
  errors: { 'Requests that Sluice makes itself': [eventFileErrors] },
  open({ foundation: { publicUrl }, control: { reads, serviceAccount }, opened }) {
    const { store, writer } = serviceAccount
    return new DeadLetterLists({ store, writer, reads, baseUrl: publicUrl.read, delivery: opened.get(EVENTS) })
  }
})
