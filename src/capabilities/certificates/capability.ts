import { defineCapability } from '../../app/capability.js'
import { certificateRoutes } from './routes.js'

/** Requests managed certificates before their time. */
export const certificates = defineCapability({
  name: 'certificates',
  routes: certificateRoutes,
  open: ({ control }) => control.records
})
