import { defineCapability } from '../../app/capability.js'
import { certificateRoutes } from './routes.js'
import { certificateOptionErrors } from './service.js'

/** Requests managed certificates before their time. */
export const certificates = defineCapability({
  name: 'certificates',
  routes: certificateRoutes,
  errors: { 'Start and store': [certificateOptionErrors] },
  open: ({ control }) => control.records
})
