import { defineCapability } from '../../app/capability.js'
import { Explanations } from './explanations.js'
import { explainRoutes } from './routes.js'
import { explainRunning, runningLabs } from './running-labs.js'

/** Explains how imagined requests would be decided. */
export const explain = defineCapability({
  name: 'explain',
  routes: explainRoutes,
  open({ options, foundation, policies }) {
    const { clock, holder } = foundation
    return new Explanations(explainRunning(runningLabs(options, foundation, policies), clock), holder)
  }
})
