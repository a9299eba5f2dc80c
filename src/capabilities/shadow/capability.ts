import { defineCapability } from '../../app/capability.js'
import { CHALLENGES } from '../../app/ports.js'
import { resources } from '../../resources/registry.js'
import { firewallOf } from '../explain/running-lab.js'
import { RECORDER } from '../recorder/running-recorder.js'
import { shadowRoutes } from './routes.js'
import { RUNNING_SHADOWS, RunningShadows } from './running-shadows.js'
import { Rehearsal } from './shadow-changes.js'
import { Shadows } from './shadows.js'

/** Runs candidates beside traffic, without effects. */
export const shadow = defineCapability({
  name: 'shadow',
  routes: shadowRoutes,
  stages: {
    ruled({ options, host, foundation, policies, opened }) {
      const shadows = new RunningShadows({
        ...foundation,
        rateLimitHeaders: options.rate_limit_headers,
        limitRules: options.limiter,
        geo: policies.geo,
        firewall: firewallOf(policies.services),
        recorder: opened.get(RECORDER),
        challenges: opened.find(CHALLENGES),
        elsewhere: host.threads !== undefined
      })
      foundation.lifecycle.opens('shadows', { begin: () => shadows.close() })
      opened.put(RUNNING_SHADOWS, shadows)
    }
  },
  open({ foundation: { publicUrl, clock, holder }, control, opened }) {
    const { serviceAccount, reads } = control
    const { run } = new Rehearsal({ ...serviceAccount, reads, clock, resources })
    return new Shadows({ runner: opened.get(RUNNING_SHADOWS), rehearse: run, serving: holder, baseUrl: publicUrl.read })
  }
})
