import { defineErrors } from '../../../lib/errors.js'

/** Codes of problems in a site file; problems of its fields have those of the management API. */
export const siteErrors = defineErrors({
  NAME_UNKNOWN: {
    text: 'The file names something that it does not declare.',
    help: 'Correct the name, or declare what it names; the message suggests one.'
  },
  FILE_UNREADABLE: {
    text: 'A file that the site file names cannot be read.',
    help: 'Correct the path, which is relative to the site file, or let the user of the process read the file.'
  },
  POLICY_MISSING: {
    text: 'A policy is empty or no longer named where one runs; nothing was opened.',
    help: 'Write the policy again, or "policy: none" where there is to be none.'
  },
  PORT_CLASH: { text: 'Two listeners or TCP edges need the same port.', help: 'Give one of them another port.' },
  PORT_UNSERVED: {
    text: 'A site has a port that no listener has, so nobody would reach it.',
    help: 'Open a listener with that port, or name the host without one: each listener without public_port serves it then.'
  },
  BACKEND_LOOP: { text: 'A server of a backend is a listener of the process.', help: 'Correct its address.' },
  SECRET_LITERAL: {
    text: 'A secret stands in the file itself.',
    help: 'Name where it is: { env: NAME }, { file: PATH } or { vault: vault/name }.'
  },
  SECRET_MISSING: {
    text: 'What a secret refers to is not there.',
    help: 'Set the environment variable, or correct the name of the secret.'
  },
  VARIABLE_MISSING: {
    text: 'A host, URL or listener names an environment variable that is not set.',
    help: 'Set the variable for the process that serves the file, or write a default: ${NAME:-default}.'
  },
  CERTIFICATE_EXPIRED: { text: 'A certificate is past its end.', help: 'Renew it.' },
  CERTIFICATE_EARLY: {
    text: 'A certificate is not valid yet.',
    help: 'Look at the clock of the machine, or wait until the certificate begins.'
  },
  CERTIFICATE_NONE: {
    text: 'Clients reach a site by TLS, and there is no certificate for it.',
    help: 'Write acme: { agree_to_terms: true }, list a certificate that covers the name, or say "certificate: none" for the site.'
  },
  NOT_BUILT: {
    text: 'The file asks for something that this version does not have.',
    help: 'Remove it; the message says what to use instead.'
  }
})
