import { defineCapability } from '../../app/capability.js'
import { exchangeFileErrors } from './exchange-file.js'
import { Exchanges } from './exchanges.js'
import { recorderErrors } from './recorder-settings.js'
import { exchangeRoutes } from './routes.js'
import { EXCHANGE_SOURCE } from './running-recorder.js'

/** Lists recorded exchanges, and repeats them. */
export const recorder = defineCapability({
  name: 'recorder',
  routes: exchangeRoutes,
  errors: { 'Start and store': [recorderErrors, exchangeFileErrors] },
  open: ({ foundation: { publicUrl }, opened }) => new Exchanges(opened.get(EXCHANGE_SOURCE), publicUrl.read)
})
