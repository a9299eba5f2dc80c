import { defineCapability } from '../../app/capability.js'
import { Exchanges } from './exchanges.js'
import { exchangeRoutes } from './routes.js'
import { EXCHANGE_SOURCE } from './running-recorder.js'

/** Shows what is recorded of traffic, and repeats it. */
export const recorder = defineCapability({
  name: 'recorder',
  routes: exchangeRoutes,
  open: ({ foundation: { publicUrl }, opened }) => new Exchanges(opened.get(EXCHANGE_SOURCE), publicUrl.read)
})
