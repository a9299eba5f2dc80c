import { defineCapability } from '../../app/capability.js'
import { STATES } from './answers.js'
import { statusRoutes } from './routes.js'
import { Status } from './status.js'

/** Public page that shows which sites are up. Off by default. */
export const status = defineCapability<Status>({
  name: 'status',
  enabled: ({ status_page }) => status_page,
  routes: statusRoutes,
  metrics: [
    {
      type: 'gauge',
      name: 'sluice_status_sites',
      help: 'Sites by their state on the status page; only while status_page is on.',
      labels: ['status'],
      *read(status) {
        const { sites } = status.current().view
        for (const state of STATES)
          yield { labels: { status: state }, value: sites.filter((site) => site.status === state).length }
      }
    }
  ],
  open: ({ foundation: { clock }, control }) => new Status({ clock, map: () => control.traffic.map() })
})
