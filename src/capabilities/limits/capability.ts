import { defineCapability } from '../../app/capability.js'
import { Limits } from './limits.js'
import { limitRoutes } from './routes.js'

/** Shows the rate limits of a running process, and resets buckets. */
export const limits = defineCapability({
  name: 'limits',
  routes: limitRoutes,
  page: { path: 'limits', title: 'Limits', after: 'policies' },
  open: ({ foundation: { clock, holder, log, publicUrl }, control, gather }) =>
    new Limits({
      snapshot: () => holder.current(),
      clock,
      baseUrl: publicUrl.read,
      gather: () => gather({ limits: true }),
      writer: control.serviceAccount.writer,
      log
    })
})
