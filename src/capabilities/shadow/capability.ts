import { defineCapability } from '../../app/capability.js'
import { shadowRoutes } from './routes.js'
import { RUNNING_SHADOWS } from './running-shadows.js'
import { Shadows } from './shadows.js'

/** Runs candidates beside traffic, without effects. */
export const shadow = defineCapability({
  name: 'shadow',
  routes: shadowRoutes,
  open: ({ foundation: { publicUrl }, control, opened }) =>
    new Shadows({ runner: opened.get(RUNNING_SHADOWS), rehearse: control.rehearse, baseUrl: publicUrl.read })
})
