import { defineCapability } from '../../app/capability.js'
import { CHALLENGES, HEALTH } from '../../app/ports.js'
import { ChallengeTable } from './challenges.js'
import { CERTIFICATES, CHALLENGE_TABLE, CurrentCertificates } from './open.js'
import { certificateRoutes } from './routes.js'
import { certificateOptionErrors } from './service.js'

/** Requests managed certificates, and renews them. */
export const certificates = defineCapability({
  name: 'certificates',
  routes: certificateRoutes,
  errors: { 'Start and store': [certificateOptionErrors] },
  stages: {
    founded({ opened }) {
      const challenges = new ChallengeTable()
      opened.put(CHALLENGE_TABLE, challenges)
      opened.put(CHALLENGES, challenges)
    },
    async serving({ options, foundation, control, opened }) {
      const current = new CurrentCertificates(
        options,
        { ...foundation, challenges: opened.get(CHALLENGE_TABLE) },
        control
      )
      await current.open()
      opened.put(CERTIFICATES, current)
      opened.add(HEALTH, { overdueCertificates: () => current.overdue })
    }
  },
  open: ({ control }) => control.records
})
