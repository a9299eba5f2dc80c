import { defineCapability } from '../../app/capability.js'
import { firewallOf } from '../explain/running-lab.js'
import { PAST_TRAFFIC } from '../recorder/running-recorder.js'
import { FirewallReports } from './firewall-report.js'
import { wafRoutes } from './routes.js'

/** Reports which rules of the web application firewall match past traffic, and proposes exclusions. */
export const waf = defineCapability({
  name: 'waf',
  routes: wafRoutes,
  page: { path: 'firewall', title: 'Firewall', after: 'policies' },
  open: ({ foundation: { holder }, policies: { services }, opened }) =>
    new FirewallReports({ past: opened.get(PAST_TRAFFIC), serving: holder, firewall: firewallOf(services) })
})
