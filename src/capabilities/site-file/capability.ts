import { defineCapability } from '../../app/capability.js'
import { siteErrors } from './declared/site-codes.js'
import { applyErrors } from './declared/site-errors.js'
import { siteRoutes } from './routes.js'

/** Declares sites by a file. */
export const siteFile = defineCapability({
  name: 'site-file',
  routes: siteRoutes,
  errors: { 'Management API': [applyErrors], 'Site files': [siteErrors] },
  open: ({ control }) => control.site
})
