"""How the service's page bears a thousand servers on two hundred cards."""
