import { defineCapability } from '../../app/capability.js'
import { RELOAD_STEPS } from '../../app/ports.js'
import { runningLabs } from '../explain/running-labs.js'
import { exchangeFileErrors } from './exchange-file.js'
import { Exchanges } from './exchanges.js'
import { recorderErrors, recorderSettings } from './recorder-settings.js'
import { exchangeRoutes } from './routes.js'
import { EXCHANGE_SOURCE, openRecorder, PAST_TRAFFIC, RECORDER } from './running-recorder.js'

/** Records exchanges, lists them, and repeats them. */
export const recorder = defineCapability({
  name: 'recorder',
  routes: exchangeRoutes,
  errors: { 'Start and store': [recorderErrors, exchangeFileErrors] },
  stages: {
    ruled({ options, foundation, dataPlane, policies, opened }) {
      const labs = runningLabs(options, foundation, policies)
      const { services } = policies
      const { recorder, source, past } = openRecorder(options, foundation, { dataPlane, labs, services })
      opened.put(RECORDER, recorder)
      opened.put(EXCHANGE_SOURCE, source)
      opened.put(PAST_TRAFFIC, past)
      opened.add(RELOAD_STEPS, (now) => {
        const recording = recorder.prepare(recorderSettings(now.recorder))
        return () => recording.use()
      })
    }
  },
  open: ({ foundation: { publicUrl, holder }, opened }) =>
    new Exchanges(opened.get(EXCHANGE_SOURCE), publicUrl.read, holder)
})
