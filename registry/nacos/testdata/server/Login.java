package tandem;

import com.alibaba.nacos.plugin.auth.api.IdentityContext;
import com.alibaba.nacos.plugin.auth.api.Permission;
import com.alibaba.nacos.plugin.auth.api.Resource;
import com.alibaba.nacos.plugin.auth.constant.ActionTypes;
import com.alibaba.nacos.plugin.auth.exception.AccessException;
import com.alibaba.nacos.plugin.auth.spi.server.AuthPluginService;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/**
 * Users and tokens, behind Nacos's own filter: the plugin that brings them is not
 * published. The user is nacos, the password and the life of a token are system
 * properties.
 */
public class Login implements AuthPluginService {
    private static final Map<String, Long> TOKENS = new ConcurrentHashMap<>();

    /** Where clients log in. */
    @RestController
    public static class Controller {
        @PostMapping("/v1/auth/login")
        public ResponseEntity<?> login(@RequestParam("username") String username, @RequestParam("password") String password) {
            if (!username.equals("nacos") || !password.equals(System.getProperty("tandem.password"))) {
                return ResponseEntity.status(HttpStatus.FORBIDDEN).body("unknown user!");
            }
            String token = UUID.randomUUID().toString();
            long seconds = Long.getLong("tandem.token.seconds", 18000);
            TOKENS.put(token, System.nanoTime() + seconds * 1_000_000_000L);
            return ResponseEntity.ok(Map.of("accessToken", token, "tokenTtl", seconds, "globalAdmin", true));
        }
    }

    @Override
    public Collection<String> identityNames() {
        return List.of("Authorization", "accessToken");
    }

    @Override
    public boolean enableAuth(ActionTypes action, String type) {
        return true;
    }

    @Override
    public boolean validateIdentity(IdentityContext context, Resource resource) throws AccessException {
        String bearer = context.getParameter("Authorization", "");
        String token = bearer.startsWith("Bearer ") ? bearer.substring(7) : context.getParameter("accessToken", "");
        Long until = TOKENS.get(token);
        if (until == null || System.nanoTime() > until) {
            throw new AccessException("token invalid!");
        }
        return true;
    }

    @Override
    public Boolean validateAuthority(IdentityContext context, Permission permission) {
        return true;
    }

    @Override
    public String getAuthServiceName() {
        return "nacos";
    }

    @Override
    public boolean isLoginEnabled() {
        return true;
    }
}
