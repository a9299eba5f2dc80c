/** What descriptions of logins say of their own paths. */
export const LOGIN_PATHS =
  'Register https://<host>/.sluice/callback at the provider; it, /.sluice/login and /.sluice/logout belong to the login on every host of the edge, whatever the route matches.'
