import { defineCapability } from '../../app/capability.js'
import { siteRoutes } from './routes.js'

/** Declares sites by a file. */
export const siteFile = defineCapability({
  name: 'site-file',
  routes: siteRoutes,
  open: ({ control }) => control.site
})
